"""The workings of the site: what its pages are made of, and that their examples run."""
