"""The workings of the site: its examples run, its pages are audited."""
