"""The box on the site's pages in which a reader's Python runs, in the browser."""
