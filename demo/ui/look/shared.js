// While the rows are fetched, a page that shows them asks for them again. gradio runs this when the status is drawn.
setInterval(() => {
  if (element.offsetParent && !document.hidden && element.querySelector('[data-fetching]')) trigger('tick');
}, 1500);
