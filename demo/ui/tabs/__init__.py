"""The tabs of the page, the form of a run, and the links to the page."""
