"""The tabs of the page, the form and its links."""
