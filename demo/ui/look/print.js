// For printing: gives Plotly's drawings a viewBox, so that print.css can scale them (Plotly would redraw too late), turns off
// the dark theme and stage mode, and writes time and address on the sheet.
(() => {
  const taken = [[document.documentElement, 'on-stage'], [document.body, 'dark']];
  let had = [];
  const stamp = line => {
    const address = new URL(location);
    // On a Space these belong to the frame; one of them opens a private Space.
    for (const name of [...address.searchParams.keys()]) if (name.startsWith('__')) address.searchParams.delete(name);
    const time = `${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`;
    line.textContent = line.dataset.words.replace('{time}', time).replace('{address}', () => address.href);
  };
  addEventListener('beforeprint', () => {
    had = taken.filter(([part, name]) => part.classList.contains(name));
    for (const [part, name] of had) part.classList.remove(name);
    document.querySelectorAll('.printed').forEach(stamp);
    for (const drawing of document.querySelectorAll('.js-plotly-plot .main-svg'))
      drawing.setAttribute('viewBox', `0 0 ${drawing.getAttribute('width')} ${drawing.getAttribute('height')}`);
  });
  addEventListener('afterprint', () => {
    for (const [part, name] of had) part.classList.add(name);
    for (const drawing of document.querySelectorAll('.js-plotly-plot .main-svg')) drawing.removeAttribute('viewBox');
  });
})();
