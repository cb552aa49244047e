// For printing: gives Plotly's drawings a viewBox, so that print.css can scale them (Plotly would redraw too late), and turns
// off the dark theme and stage mode.
(() => {
  const taken = [[document.documentElement, 'on-stage'], [document.body, 'dark']];
  let had = [];
  addEventListener('beforeprint', () => {
    had = taken.filter(([part, name]) => part.classList.contains(name));
    for (const [part, name] of had) part.classList.remove(name);
    for (const drawing of document.querySelectorAll('.js-plotly-plot .main-svg'))
      drawing.setAttribute('viewBox', `0 0 ${drawing.getAttribute('width')} ${drawing.getAttribute('height')}`);
  });
  addEventListener('afterprint', () => {
    for (const [part, name] of had) part.classList.add(name);
    for (const drawing of document.querySelectorAll('.js-plotly-plot .main-svg')) drawing.removeAttribute('viewBox');
  });
})();
