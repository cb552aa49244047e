"""The tabs of the page, what they show, the form of a run, the bar of stage mode, and the links to the page."""
