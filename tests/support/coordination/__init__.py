"""Stores that members share: real ones in processes of their own, and members in them."""
