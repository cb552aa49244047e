"""Parts of the page as HTML."""
