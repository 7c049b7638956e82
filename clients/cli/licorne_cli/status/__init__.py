"""`licorne status`: the whole server on one screen. `facts` asks for everything, `command` shows it."""
