"""The data of the site's pictures: traced with the reference, kept in ``docs/pictures/``."""
