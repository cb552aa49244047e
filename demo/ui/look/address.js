// Keeps the open tab and the shown stored run in the address bar, for Back and Forward, and sets the window's title. A
// run that ends is written into the current entry of the browser's history if the entry has no run yet. Other runs and
// tabs make a new entry. A tab's choices (filters, compared runs) are in the address as a query, with names that begin
// with the tab's name: the server sends this query, and reads it from the address when the tab is opened.
window.address = (() => {
  const SETTLED = 50;  // milliseconds after which gradio has drawn the result of an event
  let shown = '';  // the id of the stored run that is shown, '' for none

  const here = () => new URL(location);
  const tabOf = url => url.searchParams.get('tab') || 'run';
  const runOf = url => url.searchParams.get('run') || '';
  const tab = id => document.querySelector(`#rooms [role=tab][data-tab-id="${CSS.escape(id)}"]`);
  const openTab = () => document.querySelector('#rooms [role=tab][aria-selected=true]')?.dataset.tabId || 'run';
  const later = () => new Promise(done => setTimeout(done, SETTLED));

  const put = (url, name, value) => (value ? url.searchParams.set(name, value) : url.searchParams.delete(name));
  const CHOOSING = ['history', 'published'];  // the tabs whose choices are in the address
  const choices = {};  // the present choices of each of these tabs, as a query
  const choicesOf = (url, id) =>
    new URLSearchParams([...url.searchParams].filter(([name]) => name.startsWith(`${id}_`))).toString();
  const isChoice = name => CHOOSING.some(id => name.startsWith(`${id}_`));
  const putChoices = (url, id) => {
    for (const name of [...url.searchParams.keys()]) if (isChoice(name)) url.searchParams.delete(name);
    for (const [name, value] of new URLSearchParams(choices[id])) url.searchParams.set(name, value);
  };
  const showChoices = id => {
    const url = here();
    putChoices(url, id);
    if (url.href === location.href) return;
    history.replaceState(history.state, '', url);
    window.tellTheSpace?.(url);
  };
  const write = (id, run) => {
    const url = here(), before = [tabOf(url), runOf(url)];
    if (before[0] === id && before[1] === run) return;
    put(url, 'tab', id === 'run' ? '' : id);
    put(url, 'run', run);
    put(url, 'again', '');
    putChoices(url, id);
    if (before[0] !== id || before[1]) history.pushState(null, '', url);
    else history.replaceState(history.state, '', url);
    window.tellTheSpace?.(url);
  };

  const title = () => {
    const name = document.querySelector('#masthead h1')?.textContent.trim();
    if (!name) return;
    const id = openTab();
    const running = document.querySelector('#live .live, #best-head h2');
    const what = id !== 'run' ? tab(id)?.textContent.trim() : running ? '' : document.querySelector('#top [data-title]')?.dataset.title;
    document.title = [what, name].filter(Boolean).join(' · ');
  };

  const now = async (id, room) => {
    shown = id;
    await later();
    write(room ?? openTab(), shown);
    title();
  };
  const retitle = async () => {
    await later();
    title();
  };
  // A link of the page that also presses Run. An address cannot ask for this, because another site could hold it.
  const RUN = 'run-on-arrival';
  document.addEventListener('click', event => {
    const link = event.target.closest?.('a[data-run]');
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) sessionStorage.setItem(RUN, link.search);
  });
  const runIfAsked = () => {
    if (sessionStorage.getItem(RUN) === location.search) document.getElementById('run')?.click();
    sessionStorage.removeItem(RUN);
  };
  document.addEventListener('click', event => {
    const pressed = event.target.closest?.('#rooms [data-tab-id]');
    if (!pressed) return;
    write(pressed.dataset.tabId, event.isTrusted ? shown : runOf(here()));  // popstate's press: the address is set
    retitle();
  });

  window.addEventListener('popstate', () => {
    const url = here(), id = tabOf(url);
    window.tellTheSpace?.(url);
    if (id === openTab()) showChoices(id);  // the tab stays open with its choices, so the address must show them
    else tab(id)?.click();
    if (id === 'run' && runOf(url) !== shown) location.reload();
    retitle();
  });

  return {
    toTab: () => { tab(tabOf(here()))?.click(); },
    fill: query => {
      if (!query) return;
      const asked = new URLSearchParams(query);
      for (const [name, value] of here().searchParams) if (name.startsWith('__')) asked.set(name, value);  // set by a Hugging Face Space
      location.search = asked;
    },
    arrive: async id => {
      shown = id;
      await retitle();
      runIfAsked();
    },
    show: id => now(id),
    openRun: id => now(id, 'run'),  // names the tab, because gradio may not have drawn it as open yet
    // Returns the address's query if it differs from the tab's choices; else '', and the server reads the fields.
    readChoices: id => (choicesOf(here(), id) === new URLSearchParams(choices[id]).toString() ? '' : location.search || '?'),
    writeChoices: (id, query) => {
      choices[id] = query;
      if (openTab() === id) showChoices(id);
    },
    remember: id => (id ? now(id) : retitle()),
  };
})();
