"""What lies between gradio and its clients: checks of requests, limits of uploads, work-arounds, pictures over MCP."""
