"""`licorne bench`: arguments, progress and tables; `licorne_tools.bench` measures.

`command` chooses among scenarios (`scenarios`, `runs`, `against`), `growth`, `isolation` and
`utilisation`.
"""
