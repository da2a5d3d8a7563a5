"""The pictures of the site, traced with the reference: see ``gallery``."""
