"""A guard against requests of other sites, and work-arounds for gradio."""
