'use strict';
// The routes, a page at a time: searched as one types, narrowed by table and peer. A row leads to its
// explanation.

const Routes = (() => {
  const { el, fill, none, text, number, mono, link, tag, state, row, lines } = Draw;
  const A_PAGE = 200;
  /// Typing pauses for so long before the agent is asked.
  const PAUSE = 180;

  const tables = { all: 'All', originated: 'Originated', received: 'Received', advertised: 'Advertised' };

  const shared = [
    { title: 'Next hop' },
    { title: 'AS path' },
    { title: 'MED', kind: 'number', hint: 'multi-exit discriminator' },
    { title: 'Pref', kind: 'number', hint: 'local preference' },
  ];
  const last = { title: 'Communities, notes', kind: 'words' };
  const columns = {
    known: [{ title: 'Prefix' }, { title: 'Path' }, { title: 'From' },
      ...shared, { title: 'Kernel', hint: 'whether the kernel forwards by it' }, last],
    told: [{ title: 'Prefix' }, { title: 'Told to' }, { title: 'Owner' },
      ...shared, last],
  };

  const attributes = route => [
    lines(route.nextHops.map(mono)),
    route.asPath.length ? text(route.asPath.join(' ')) : none,
    route.med === null ? none : number(route.med),
    route.localPref === null ? none : number(route.localPref),
  ];

  const standing = route => {
    if (route.refused) return state('refused', 'bad');
    if (route.best) return state('best', 'good');
    return route.equal ? state('shares', 'good') : state('not used', 'plain');
  };

  const notes = route => {
    const odd = [route.refused, route.stale && 'stale: its peer restarts',
      route.installed === false && (route.best || route.equal) && 'not in the kernel'].filter(Boolean).join('; ');
    const communities = [...route.communities, ...route.largeCommunities].map(one => tag(one, 'plain'));
    return row(odd ? [...communities, text(odd, 'tone-warn')] : communities);
  };

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
    const isTold = wanted.which === 'advertised';
    return {
      key: `${key} ${same}`,
      cells: isTold
        ? [explain(route, isSame), text(route.peer), text(route.owner), ...attributes(route), notes(route)]
        : [explain(route, isSame), standing(route), from(route), ...attributes(route),
          route.installed === null ? none : route.installed ? text('yes', 'tone-good') : text('no', 'tone-warn'),
          notes(route)],
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
    const search = el('input', { type: 'search', id: 'routes-find', autocomplete: 'off', spellcheck: 'false',
      placeholder: 'prefix, address, owner or peer', 'data-search': true,
      on: { input: () => later({ find: parts.search.value.trim() }), keydown: enter } });
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
    parts = { search, choices, peer, tally, empty, place, back, on, turning };
    root = el('section', { 'aria-label': 'Routes' }, el('h2', { class: 'unseen' }, 'Routes'),
      el('div', { class: 'tools' }, el('label', { for: 'routes-find' }, 'Find'), search,
        el('fieldset', { class: 'choice' }, el('legend', { class: 'unseen' }, 'Which routes'), choices),
        el('label', { for: 'routes-peer' }, 'Peer'), peer, tally),
      empty, place, turning);
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
      if (mine === asked) draw(answer);
    } catch (error) {
      if (mine === asked && error instanceof Agent.Refusal) refuse(error.message);
    }
  };

  const draw = ({ routes }) => {
    // The last page was full to the brim.
    if (routes.length === 0 && pages.length > 1) {
      pages.pop();
      parts.on.disabled = true;
      return;
    }
    next = routes.length >= A_PAGE ? routes[routes.length - 1].prefix : null;
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
    table.root.hidden = routes.length === 0;
    parts.empty.hidden = routes.length > 0;
    parts.empty.textContent = wanted.find || wanted.peer || wanted.which !== 'all'
      ? 'No route matches.' : 'No routes: this node originates none and was told none.';
    const first = pages.length > 1 ? `page ${pages.length}, ` : '';
    const rest = next ? ', and more' : '';
    parts.tally.textContent = `${first}${routes.length} ${routes.length === 1 ? 'path' : 'paths'}${rest}`;
    parts.back.disabled = pages.length === 1;
    parts.on.disabled = !next;
    parts.turning.hidden = pages.length === 1 && !next;
  };

  const refuse = words => {
    parts.tally.textContent = '';
    parts.empty.hidden = false;
    parts.empty.textContent = Draw.plain(words);
    if (table) table.root.hidden = true;
  };

  const offer = peers => {
    const names = ['', ...peers.map(peer => peer.name)];
    if (wanted.peer && !names.includes(wanted.peer)) names.push(wanted.peer);
    const sign = JSON.stringify(names);
    if (parts.peer.sign !== sign) {
      parts.peer.sign = sign;
      fill(parts.peer, names.map(name => el('option', { value: name }, name || 'any')));
    }
    parts.peer.value = wanted.peer;
  };

  return {
    name: 'routes',
    title: 'Routes',
    open: (path, query) => {
      if (!root) build();
      const which = query.get('which') || 'all';
      Object.assign(wanted, { find: query.get('find') || '', peer: query.get('peer') || '', which });
      if (!tables[wanted.which]) wanted.which = 'all';
      pages = [''];
      if (document.activeElement !== parts.search) parts.search.value = wanted.find;
      for (const choice of parts.choices) {
        const radio = choice.querySelector('input');
        radio.checked = radio.value === wanted.which;
      }
      return root;
    },
    refresh: summary => {
      offer(summary.peers);
      return load();
    },
  };
})();
