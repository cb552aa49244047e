// Copy buttons; the figure as PNG and SVG, which Plotly draws in the browser.
const saved = (uri, name) => Object.assign(document.createElement('a'), { href: uri, download: name }).click();
element.addEventListener('click', async event => {
  const button = event.target.closest('button');
  if (!button) return;
  if (button.dataset.copies) {
    const text = element.querySelector('#' + button.dataset.copies);
    const done = await window.copying.copy(button, text.textContent);
    if (!done) getSelection().selectAllChildren(text);  // Ctrl+C then copies it
  } else if (button.dataset.figure) {
    const plot = document.querySelector('#chart .js-plotly-plot');
    if (!plot || !window.Plotly) return window.copying.say(button, button.dataset.failed);
    const layout = { ...plot.layout, paper_bgcolor: '#ffffff', plot_bgcolor: '#ffffff' };
    const how = { format: button.dataset.figure, width: 800, height: plot.clientHeight, scale: 2 };
    saved(await window.Plotly.toImage({ data: plot.data, layout }, how), button.dataset.name);
  }
});
