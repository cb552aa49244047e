// The browser's half of whole_work.py: the same formulas and words, while somebody moves the slider, without a server.
// A time is [seconds, low, high]; the cost of a way to run a model is [time of its first call, time of each call].
window.wholeWork = (() => {
  const DECADES = 8, STEPS = 50, MOST = 10 ** DECADES;
  const NOT_TOLD = 'cannot be told';

  // ---- the arithmetic

  const both = (one, other) => Math.sqrt(one * one + other * other);
  const difference = (first, second) => {
    const seconds = first[0] - second[0];
    const below = both(first[0] - first[1], second[2] - second[0]), above = both(first[2] - first[0], second[0] - second[1]);
    return [seconds, seconds - below, seconds + above];
  };
  const total = ([first, each], calls) => {
    const seconds = first[0] + calls * each[0];
    const below = both(first[0] - first[1], calls * (each[0] - each[1]));
    const above = both(first[2] - first[0], calls * (each[2] - each[0]));
    return [seconds, seconds - below, seconds + above];
  };
  const saved = (ways, name, calls) => difference(total(Object.values(ways)[0], calls), total(ways[name], calls));
  const knownBest = (ways, calls) => {
    const totals = Object.entries(ways).map(([name, way]) => [name, total(way, calls)]);
    return totals.filter(([, one]) => totals.every(([, other]) => difference(one, other)[1] <= 0)).map(([name]) => name);
  };
  const bestGuess = (ways, best, calls) => {
    const most = best.map(name => total(ways[name], calls)[2]);
    return best.find((_, place) => most[place] <= 1.05 * Math.min(...most));
  };
  const callsAt = step => Math.floor((10 ** (step / STEPS)).toExponential(1));

  // ---- the words

  const grouped = number => String(number).replace(/\B(?=(\d{3})+$)/g, '\u202f');
  const count = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? '' : 's'}`;
  const significant = value => value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
  const latency = seconds => {
    const value = seconds * 1e3;
    return `${value < 0.1 ? value.toFixed(1 - Math.floor(Math.log10(value))) : significant(value)} ms`;
  };
  const duration = seconds => {
    const parts = (whole, large, small) => {
      const rest = whole % 60;
      return `${Math.floor(whole / 60)} ${large}${rest ? ` ${rest} ${small}` : ''}`;
    };
    if (seconds > 0 && seconds < 0.1) return latency(seconds);
    if (seconds < 10) return `${seconds.toFixed(1)} s`;
    if (seconds < 90) return `${seconds.toFixed(0)} s`;
    if (seconds < 90 * 60) return parts(Math.round(seconds), 'min', 's');
    if (seconds < 48 * 3600) return parts(Math.round(seconds / 60), 'h', 'min');
    return `${grouped(Math.round(seconds / 86400))} days`;
  };
  const durations = (low, high) => {
    const first = duration(low), last = duration(high), [number, unit, more] = first.split(' ');
    return `${!more && last.split(' ').length === 2 && last.endsWith(` ${unit}`) ? number : first} to ${last}`;
  };
  const amount = ([seconds, low, high]) => {
    if (low > 0) return `saves ${duration(seconds)} (${durations(low, high)})`;
    if (high < 0) return `costs ${duration(-seconds)} (${durations(-high, -low)})`;
    return `may cost ${duration(-low)} or save ${duration(high)}`;
  };
  const listed = names => (names.length > 1 ? `${names.slice(0, -1).join(', ')} or ${names.at(-1)}` : names[0]);
  const answer = (ways, calls) => {
    const [eager, ...others] = Object.keys(ways), best = knownBest(ways, calls);
    if (others.length === 1) return `${others[0]} ${amount(saved(ways, others[0], calls))}`.replace(/^compiled /, '');
    if (best.length === 1 && best[0] === eager) return 'eager is known to be the best';
    if (best.includes(eager)) return `${NOT_TOLD}: ${listed(best)}`;
    const winner = bestGuess(ways, best, calls), rest = best.filter(name => name !== winner);
    return `${winner} ${amount(saved(ways, winner, calls))}${rest.length ? `, ${NOT_TOLD} from ${listed(rest)}` : ''}`;
  };
  const unbroken = words => words.replace(/(?<=\d) (?=(?:ms|s|min|h|days)\b)|(?<=\d (?:min|h)) (?=\d)/g, '\u00a0');
  const shortQuestion = (noun, rate) => `${noun[0].toUpperCase()}${noun.slice(1)}s ${rate ? 'a day' : 'between restarts'}`;
  const eagerTakes = (work, calls) => {
    const images = work.images > 1 ? ` for ${count(calls * work.images, 'image')}` : '';
    return `Eager takes ${duration(total(Object.values(Object.values(work.starts)[0])[0], calls)[0])}${images}.`;
  };

  // ---- what was typed: a number of calls, or a rate, which means one restart a day

  const A_DAY = { s: 86400, m: 1440, h: 24, d: 1 };
  const read = text => {
    const found = /^([\d.,\s\u202f]*\d[\s\u202f]*)([kKM]?)\s*(?:(?:\/|per)\s*(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?))?$/.exec(text.trim());
    if (!found) return null;
    const number = Number(found[1].replace(/[\s\u202f]|,(?=\d{3}(?!\d))/g, '')) * ({ k: 1e3, K: 1e3, M: 1e6 }[found[2]] ?? 1);
    const calls = Math.round(number * (A_DAY[found[3]?.[0]] ?? 1));
    return calls >= 1 && calls <= MOST ? { calls, rate: found[3] && text.trim() } : null;
  };

  // ---- the mark in the race: where each line is after that many calls

  const SVG = 'http://www.w3.org/2000/svg';
  const markRace = (race, work, many) => {
    race.querySelector('.asked')?.remove();
    const [left, right, top, height, end, most] = JSON.parse(race.dataset.plot);
    const mark = document.createElementNS(SVG, 'g'), y = top + height * (1 - work / most);
    mark.setAttribute('class', 'asked');
    const part = (name, attributes) => {
      const made = mark.appendChild(document.createElementNS(SVG, name));
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      return made;
    };
    if (work > most) {
      part('text', { class: 'small', x: right, y: top - 6, 'text-anchor': 'end' }).textContent = `${many}: beyond this chart`;
      race.append(mark);
      return;
    }
    part('path', { class: 'level', d: `M${left} ${y}H${right}` });
    for (const line of race.querySelectorAll('.line[data-each]')) {
      const seconds = Number(line.dataset.first) + work * Number(line.dataset.each);
      const kind = line.classList.contains('eager') ? 'at eager' : 'at compiled';
      if (seconds <= end) part('circle', { class: kind, cx: left + (right - left) * seconds / end, cy: y, r: 6 });
    }
    race.append(mark);
  };

  // ---- the page

  let asked = null;  // what the visitor chose last: it stays for the next result
  const drawn = new WeakMap();  // what each slider shows

  const draw = (section, to) => {
    const step = to.step ?? STEPS * Math.log10(to.calls);  // the lowest steps share a number of calls
    const key = `${section.dataset.work} ${step} ${to.rate}`;
    if (drawn.get(section) === key) return;
    drawn.set(section, key);
    const work = JSON.parse(section.dataset.work), { calls } = to, range = section.querySelector('[type=range]');
    const many = count(calls, work.noun) + (to.rate ? ' a day' : '');
    section.style.setProperty('--at', `${100 * step / (STEPS * DECADES)}%`);
    range.value = Math.round(step);
    range.setAttribute('aria-valuetext', many);
    const typed = section.querySelector('.typed');
    if (typed !== document.activeElement) typed.value = to.rate ?? grouped(calls);
    section.querySelector('.eager-takes').textContent = (to.rate ? `${many}. ` : '') + eagerTakes(work, calls);
    const answers = Object.entries(work.starts).map(([start, ways]) => [start, answer(ways, calls)]);
    section.querySelectorAll('.start b').forEach((place, number) => { place.textContent = unbroken(answers[number][1]); });
    section.querySelector('.short').textContent = shortQuestion(work.noun, to.rate);
    section.said = `${many}: ${answers.map(([start, words]) => `${start} ${words}`).join(', ')}.`;
  };
  const drawAll = () => {
    const sections = document.querySelectorAll('.whole-work');
    if (!sections.length) return;
    const { calls, rate = '' } = sections[0].dataset;
    asked ??= read(new URLSearchParams(location.search).get('calls') ?? '') ?? read(rate) ?? { calls: Number(calls) };
    for (const section of sections) draw(section, asked);
    const raced = document.querySelector('#work .whole-work, .sent .whole-work');
    if (!raced) return;  // a search has sliders and no race
    const { tokens, noun } = JSON.parse(raced.dataset.work), many = count(asked.calls, noun);
    const work = String(asked.calls / tokens);
    for (const race of document.querySelectorAll('#race svg[data-plot], .sent svg[data-plot]')) {
      if (race.dataset.asked === work) continue;
      race.dataset.asked = work;
      markRace(race, Number(work), many);
    }
  };

  document.addEventListener('input', event => {
    const section = event.target.closest?.('.whole-work');
    if (!section) return;
    const step = event.target.valueAsNumber;
    const to = event.target.type === 'range' ? { calls: callsAt(step), step } : read(event.target.value);
    event.target.setAttribute('aria-invalid', to === null);
    if (to === null) return;
    asked = to;
    drawAll();
  });
  document.addEventListener('change', event => {
    const section = event.target.closest?.('.whole-work');
    if (!section || !asked) return;
    section.querySelector('.aloud').textContent = section.said;
    if (!window.address) return;  // a file that was sent
    const here = new URL(location);
    here.searchParams.set('calls', asked.rate ?? asked.calls);
    history.replaceState(history.state, '', here);
    window.tellTheSpace?.(here);
  });
  document.addEventListener('focusout', event => {  // the field shows the number that the answers are for
    const section = event.target.closest?.('.whole-work');
    if (!section || !asked) return;
    event.target.removeAttribute('aria-invalid');
    drawn.delete(section);
    drawAll();
  });
  const begin = () => {
    drawAll();
    new MutationObserver(drawAll).observe(document.documentElement, { childList: true, subtree: true });
  };
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', begin);
  else begin();

  const asText = () => (asked ? [asked.calls, asked.rate].filter(Boolean).join(' ') : '');  // '172800 2/s'
  return { answer, asText, callsAt, eagerTakes, read, unbroken };
})();
