// The list of runs: `element` contains it, `trigger` sends an event to the server. gradio writes a new list over the old one
// row by row. What the browser keeps in a row (tick, focus, scroll position) would then belong to another run.
const UPDATE_MILLISECONDS = 5_000;
const ticked = new Set(); // ids, also of runs that the search hides: they come back ticked

let held = null; // the row with the pointer or the focus, and its position in the window

// Before gradio writes: moves each row that stays to the place of its run, removes the others, and adds empty rows.
const place = html => {
  const body = element.querySelector('tbody');
  if (!body) return html;
  const row = body.querySelector('tr:hover, tr:focus-within');
  held = row && { row, top: row.getBoundingClientRect().top };
  const rows = new Map(Array.from(body.rows, row => [row.querySelector('input').value, row]));
  const wanted = Array.from(
    new DOMParser().parseFromString(html, 'text/html').querySelectorAll('tbody input'), box => box.value,
  );
  const stay = new Set(wanted);
  rows.forEach((row, id) => stay.has(id) || row.remove());
  wanted.forEach((id, at) => {
    const row = rows.get(id) ?? document.createElement('tr');
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] ?? null);
  });
  return html;
};

const tick = () => element.querySelectorAll('input').forEach(box => { box.checked = ticked.has(box.value); });
const written = () => {
  tick();
  if (held?.row.isConnected) window.scrollBy({ top: held.row.getBoundingClientRect().top - held.top, behavior: 'instant' });
  held = null;
};
const untick = () => { ticked.clear(); tick(); };
element.addEventListener('change', ({ target }) => ticked[target.checked ? 'add' : 'delete'](target.value));
new MutationObserver(written).observe(element, { attributeFilter: ['value'], childList: true, subtree: true });

window.runList = {
  place,
  untick,
  ticked: () => Array.from(element.querySelectorAll('input:checked'), box => box.value).join(' '),

  // The ids that the shown question names, even if the ticks have changed.
  questioned: () => document.querySelector('#sure [data-runs]')?.dataset.runs ?? '',

  // Waits until the other tab is shown. It keeps the scroll position of this one.
  toOpened: () => setTimeout(() => { pageEvents.toStage(); pageEvents.focusStage(); }, 100),

  // Focuses the button of the list when the focused one is gone.
  toDelete: () => document.getElementById('delete').focus({ preventScroll: true }),

  toComparison: () => document.getElementById('compared').scrollIntoView({ block: 'start' }),
};

// A plain click opens the run in this page; with a modifier key the browser follows the link.
element.addEventListener('click', event => {
  const link = event.target.closest('a[data-run]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  trigger('select', { run: link.dataset.run });
});

// A hidden list asks the server for nothing.
setInterval(() => { if (element.offsetParent && !document.hidden) trigger('tick'); }, UPDATE_MILLISECONDS);
