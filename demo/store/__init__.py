"""What is kept between runs: the history, the published and measured tables, exports."""
