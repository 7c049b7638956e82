"""The Python client of Licorne, and the wire types that it speaks."""
