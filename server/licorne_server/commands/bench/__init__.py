"""`licorne bench`: arguments, progress and tables; `licorne_server.bench` measures.

`command` chooses among scenarios (`scenarios`, `runs`, `against`), `growth`, `isolation` and
`utilisation`.
"""
