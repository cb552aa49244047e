"""The code between a request and the page: the guard against other sites, and work-arounds for gradio."""
