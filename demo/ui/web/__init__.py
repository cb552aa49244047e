"""A guard against requests from other sites, and work-arounds for gradio."""
