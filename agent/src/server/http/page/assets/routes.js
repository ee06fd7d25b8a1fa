'use strict';
// The routes, a page at a time: searched as one types, narrowed by table and peer. A row leads to its
// explanation.

const Routes = (() => {
const { el, fill, none, text, number, mono, link, tag, state, row, lines } = Draw;
const A_PAGE = 200;
/// Typing pauses for so long before the agent is asked.
const PAUSE = 180;

const tables = { all: 'All', originated: 'Originated', received: 'Received', advertised: 'Advertised' };

const shared = [['Next hop'], ['AS path'], ['MED', 'number', 'multi-exit discriminator'],
  ['Pref', 'number', 'local preference'], ['Communities, notes', 'words']];
const columns = {
  known: [['Prefix'], ['Path'], ['From'], ['Kernel', '', 'whether the kernel forwards by it'], ...shared],
  told: [['Prefix'], ['Told to'], ['Owner'], ...shared],
};

const attributes = route => [
  lines(route.nextHops.map(mono)),
  route.asPath.length ? text(route.asPath.join(' ')) : none,
  route.med === null ? none : number(route.med),
  route.localPref === null ? none : number(route.localPref),
  notes(route),
];

const standing = route => {
  if (route.refused) return state('refused', 'plain');
  if (route.best) return state('best', 'good');
  return route.equal ? state('shares', 'good') : state('not used', 'plain');
};

const notes = route => {
  const communities = [...route.communities, ...route.largeCommunities].map(one => tag(one, 'plain'));
  const isMissing = route.installed === false && (route.best || route.equal);
  return row([...communities, text(route.refused, 'past'), text(route.stale && 'stale: its peer restarts', 'tone-warn'),
    text(isMissing && 'not in the kernel', 'tone-warn')].filter(one => one !== none));
};

const inKernel = is => is === null ? none : is ? text('yes', 'tone-good') : text('no', 'tone-warn');

const from = route => route.source === 'local'
  ? row([tag('this node', 'own'), text(route.owner)].filter(one => one !== none))
  : row([tag('learned', 'plain'), text(route.peer)]);

const explain = (route, isSame) =>
  link(`#/explain/${route.prefix}`, route.prefix, `mono door${isSame ? ' past' : ''}`);

const line = (route, isSame, before) => {
  // Several paths of one prefix stand below each other; who told each of them tells them apart.
  const key = `${route.prefix} ${route.source} ${route.peer} ${route.nextHops.join(' ')}`;
  const same = before.get(key) || 0;
  before.set(key, same + 1);
  return {
    key: `${key} ${same}`,
    cells: [explain(route, isSame), ...(wanted.which === 'advertised' ? [text(route.peer), text(route.owner)]
      : [standing(route), from(route), inKernel(route.installed)]), ...attributes(route)],
  };
};

// What is asked for; it is also in the address, so that a search can be passed on.
const wanted = { find: '', which: 'all', peer: '' };
/// Where each page before this one began.
let pages = [''];
let next = null;

let root = null;
let parts = null;
let table = null;
let asked = 0;
let timer = null;
let abort = null;

const build = () => {
  const find = Draw.search('routes-find', 'Find', 'prefix, address, owner or peer',
    { input: () => later({ find: parts.search.value.trim() }), keydown: enter });
  const choices = Object.entries(tables).map(([which, title]) => {
    const radio = el('input', { type: 'radio', name: 'which', value: which, on: { change: () => now({ which }) } });
    return el('label', {}, radio, el('span', {}, title));
  });
  const peer = el('select', { id: 'routes-peer', on: { change: () => now({ peer: parts.peer.value }) } });
  const tally = el('p', { class: 'tally', role: 'status' });
  const empty = el('p', { class: 'empty' });
  const place = el('div');
  const back = el('button', { type: 'button', on: { click: () => turn(-1) } }, '← Previous');
  const on = el('button', { type: 'button', on: { click: () => turn(1) } }, 'Next →');
  const turning = el('nav', { class: 'pages', 'aria-label': 'Pages of routes' }, back, on);
  parts = { search: find[1], choices, peer, tally, empty, place, back, on, turning };
  root = Draw.view('Routes', el('div', { class: 'tools' }, find,
    el('fieldset', { class: 'choice' }, el('legend', { class: 'unseen' }, 'Which routes'), choices),
    el('label', { for: 'routes-peer' }, 'Peer'), peer, tally), empty, place, turning);
  place.addEventListener('click', event => {
    const door = event.target.closest('tr')?.querySelector('.door');
    if (door && !event.target.closest('a, button') && String(getSelection()) === '') door.click();
  });
};

/// Enter in the search goes to the first of what was found.
const enter = async event => {
  if (event.key !== 'Enter') return;
  clearTimeout(timer);
  await load();
  table?.root.querySelector('.door')?.focus();
};

const now = change => {
  Object.assign(wanted, change);
  pages = [''];
  const given = Object.entries(wanted).filter(([key, value]) => value && !(key === 'which' && value === 'all'));
  const query = new URLSearchParams(given).toString();
  history.replaceState(null, '', `#/routes${query ? `?${query}` : ''}`);
  return load();
};

const later = change => {
  clearTimeout(timer);
  timer = setTimeout(() => now(change), PAUSE);
};

const turn = async step => {
  if (step > 0 && next) pages.push(next);
  else if (step < 0 && pages.length > 1) pages.pop();
  await load();
  parts.place.scrollIntoView({ block: 'nearest' });
};

/// Asks for what is wanted now; an answer that was overtaken is dropped.
const load = async () => {
  const mine = ++asked;
  abort?.abort();
  abort = new AbortController();
  try {
    const after = pages[pages.length - 1];
    const answer = await Agent.ask('routes', { ...wanted, limit: A_PAGE, after }, abort.signal);
    if (answer && mine === asked) draw(answer);
  } catch (error) {
    if (!(error instanceof Agent.Refusal)) throw error;
    parts.tally.textContent = '';
    empty(error.message);
  }
};

const draw = ({ routes, more }) => {
  // The last page was full to the brim.
  if (routes.length === 0 && pages.length > 1) {
    pages.pop();
    parts.on.disabled = true;
    return;
  }
  next = more && routes.length > 0 ? routes[routes.length - 1].prefix : null;
  const kind = wanted.which === 'advertised' ? 'told' : 'known';
  const sought = JSON.stringify([wanted, pages.length]);
  if (!table || table.kind !== kind || table.sought !== sought) {
    // Another question: nothing in the answer is a change.
    table = new Table.Table(`Routes: ${tables[wanted.which]}`, columns[kind]);
    Object.assign(table, { kind, sought });
    fill(parts.place, table.root);
  }
  const before = new Map();
  table.update(routes.map((route, at) => line(route, at > 0 && routes[at - 1].prefix === route.prefix, before)));
  empty(routes.length > 0 ? '' : wanted.find || wanted.peer || wanted.which !== 'all'
    ? 'No route matches.' : 'No routes: this node originates none and was told none.');
  parts.tally.textContent = `${pages.length > 1 ? `page ${pages.length}, ` : ''}${routes.length} `
    + `${routes.length === 1 ? 'path' : 'paths'}${next ? ', and more' : ''}`;
  parts.back.disabled = pages.length === 1;
  parts.on.disabled = !next;
  parts.turning.hidden = pages.length === 1 && !next;
};

/// Words in the place of a table, or the table.
const empty = words => {
  parts.empty.textContent = Draw.plain(words);
  parts.empty.hidden = words === '';
  if (table) table.root.hidden = words !== '';
};

/// Keeps a choice of peers current.
const offer = (select, peers, chosen) => {
  const names = [...new Set(['', ...peers.map(peer => peer.name), chosen])];
  const sign = JSON.stringify(names);
  if (select.sign !== sign) {
    select.sign = sign;
    fill(select, names.map(name => el('option', { value: name }, name || 'any')));
  }
  select.value = chosen;
};

return {
  title: 'Routes',
  standing,
  offer,
  open: (path, query) => {
    if (!root) build();
    const which = query.get('which') in tables ? query.get('which') : 'all';
    Object.assign(wanted, { find: query.get('find') || '', peer: query.get('peer') || '', which });
    pages = [''];
    if (document.activeElement !== parts.search) parts.search.value = wanted.find;
    for (const choice of parts.choices) {
      const radio = choice.querySelector('input');
      radio.checked = radio.value === wanted.which;
    }
    return root;
  },
  refresh: summary => {
    offer(parts.peer, summary.peers, wanted.peer);
    return load();
  },
};
})();
