"""What stands behind the site: its examples run, its pages are audited."""
