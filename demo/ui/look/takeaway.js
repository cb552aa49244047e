// Copy buttons; the figure as PNG and SVG, which Plotly draws in the browser; and the sums of a month.
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
element.addEventListener('input', event => {
  const traffic = event.target.closest('.traffic');
  if (!traffic) return;
  const given = name => Math.max(0, Number(traffic.querySelector('[name=' + name + ']').value) || 0);
  const { eager, compiled, start, saves, costs, money } = traffic.dataset;
  const saved = 30 * (given('calls') * (eager - compiled) - given('restarts') * start);
  const size = Math.abs(saved);
  const units = size < 120 ? [1, 's', 1] : size < 7200 ? [60, 'min', 0] : [3600, 'h', 1];
  const isolated = value => '\u2066' + value + '\u2069';  // left to right in Arabic, too
  const time = isolated((size / units[0]).toFixed(units[2]) + ' ' + units[1]);
  let text = (saved < 0 ? costs : saves).replace('{time}', () => time);
  if (given('price')) text += ' ' + money.replace('{money}', () => isolated((size / 3600 * given('price')).toFixed(2)));
  traffic.querySelector('output').textContent = given('calls') || given('restarts') ? text : '';
});
