// Sends the page's query to the outer page on huggingface.co/spaces. There this page is in a frame, and the address bar
// shows the outer page. Parameters that begin with two underscores belong to the frame and are not sent.
window.tellTheSpace = (address, at = location.hostname) => {
  if (!at.endsWith('.hf.space') || window.parent === window) return;
  const query = new URLSearchParams(address.search);
  for (const name of [...query.keys()]) if (name.startsWith('__')) query.delete(name);
  window.parent.postMessage({ queryString: query.toString(), hash: '' }, 'https://huggingface.co');
};

// Stage mode: the page for a talk. Its only state is a class of the root element; ?stage=1 in the address keeps it on
// over a reload. A narrow window has no room for stage mode and shows the page without it.
(() => {
  const root = document.documentElement;
  const keys = { r: 'run', c: 'cancel', s: 'preset-s', 0: 'preset-0', 1: 'preset-1', 2: 'preset-2', 3: 'preset-3', 4: 'preset-4', 5: 'preset-5' };  // to ids
  const typing = 'input:not([type=range], [type=radio]), textarea, select, [contenteditable], [role=textbox], [role=combobox]';
  const inFront = 'dialog[open], [role=dialog], [role=alertdialog], [role=menu], [role=listbox], [popover], .api-docs';
  const isOpen = () => [...document.querySelectorAll(inFront)].some(part => part.checkVisibility());

  const wide = matchMedia('(min-width: 801px)');

  const turn = on => {
    root.classList.toggle('on-stage', on);
    const address = new URL(location);
    if (on) address.searchParams.set('stage', '1');
    else address.searchParams.delete('stage');
    history.replaceState(history.state, '', address);
    window.tellTheSpace(address);
    if (on) document.querySelector('#rooms button[role=tab]')?.click();
    window.dispatchEvent(new Event('resize'));  // Plotly draws its charts to the new width
    document.querySelector(`[data-stage="${on ? 'off' : 'on'}"]`)?.focus();
  };

  const fit = () => root.classList.toggle('on-stage', wide.matches && new URLSearchParams(location.search).get('stage') === '1');
  fit();
  wide.addEventListener('change', fit);

  document.addEventListener('click', event => {
    const button = event.target.closest?.('[data-stage]');
    if (button) turn(button.dataset.stage === 'on');
  });

  // Returns the pressed letter or digit, or if the key types neither (Cyrillic, AZERTY), that of a US keyboard.
  const named = event => {
    const typed = event.key.toLowerCase();
    return /^[a-z0-9]$/.test(typed) ? typed : (/^(?:Key|Digit)(.)$/.exec(event.code)?.[1] ?? typed).toLowerCase();
  };

  document.addEventListener('keydown', event => {
    if (!root.classList.contains('on-stage') || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.defaultPrevented || event.isComposing || event.target.closest?.(typing) || isOpen()) return;
    const key = named(event);
    if (key === 'escape') turn(false);
    else if (key === 'd') document.body.classList.toggle('dark');
    else if (/^\d$/.test(key) && document.querySelector('#cancel:not(:disabled)')) return;  // a run goes on
    else if (keys[key]) document.getElementById(keys[key])?.click();
    else return;
    event.preventDefault();
  });
})();
