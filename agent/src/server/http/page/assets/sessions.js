'use strict';
// The sessions: a line for each peer, everything about one below it, and what happened to them since the
// page was opened.

const Sessions = (() => {
const { el, fill, none, text, number, mono, time, tag, state, row, piece, family } = Draw;
const REMEMBERED = 30;

const tone = name => ({ Established: 'good', Idle: 'bad' })[name] || 'warn';
const isUp = peer => peer.state === 'Established';
const moment = (peer, what, seconds) => Draw.steady(`${peer.name} ${what}`, Date.now() + seconds * 1000);
const since = peer => time(moment(peer, 'state', -(isUp(peer) ? peer.uptimeSeconds : peer.stateSeconds)), 'span');
const next = peer => isUp(peer) || peer.nextAttemptSeconds === null ? [] :
  [time(moment(peer, 'next', peer.nextAttemptSeconds), 'ahead', 'past')];
// Without a session there is nothing to count, unless routes are kept over a restart.
const counts = peer => isUp(peer) || peer.received + peer.accepted + peer.advertised > 0;

const columns = [
  ['Peer'], ['State'], ['Up / down', 'number', 'how long it is in this state'], ['Address'], ['AS', 'number'],
  ['Families', '', 'in use, or wished for while there is no session'],
  ['Received', 'number', 'routes that it told'],
  ['Accepted', 'number', 'of those, the ones that policy let in'],
  ['Advertised', 'number', 'routes that it was told'],
  ['Flaps', 'number', 'sessions that ended'],
  ['Last error', 'words'],
];

const opened = new Set();
const toggle = name => {
  if (!opened.delete(name)) opened.add(name);
  draw();
};

const detailId = name => `peer-${[...name].map(c => c.codePointAt(0).toString(16)).join('-')}`;

const lastError = peer => {
  if (!peer.lastError) return none;
  const ago = peer.lastErrorSecondsAgo === null ? [] :
    [time(moment(peer, 'error', -peer.lastErrorSecondsAgo), 'ago', 'past')];
  return row([text(peer.lastError, isUp(peer) ? 'past' : 'tone-bad'), ...ago, ...next(peer)], ' · ');
};

const door = peer => {
  const isOpen = opened.has(peer.name);
  return piece(`${isOpen} ${peer.name}`, () => el('button', {
    type: 'button', class: 'opener', 'aria-expanded': String(isOpen),
    'aria-controls': isOpen ? detailId(peer.name) : null, on: { click: () => toggle(peer.name) },
  }, peer.name));
};

const line = peer => ({
  key: peer.name,
  tone: isUp(peer) ? '' : tone(peer.state),
  cells: [
    door(peer),
    row([state(peer.state, tone(peer.state)), ...(peer.restarting ? [tag('restarts', 'warn')] : [])]),
    since(peer),
    mono(peer.address),
    text(peer.asn),
    row(peer.families.map(name => tag(family(name), 'plain'))),
    ...[peer.received, peer.accepted, peer.advertised].map(n => counts(peer) ? number(n) : none),
    number(peer.flaps),
    lastError(peer),
  ],
  open: opened.has(peer.name) ? detailId(peer.name) : '',
  detail,
  subject: peer,
});

const detail = () => {
  const facts = new Table.Facts();
  const families = new Table.Table('Families of this peer', [
    ['Family'], ['In use'],
    ['Received', 'number'], ['Accepted', 'number'],
    ['Advertised', 'number'], ['End-of-RIB'],
    ['Kept over a restart'],
  ]);
  const root = el('div', { class: 'inside' }, facts.root, families.root);
  const update = peer => {
    facts.update(about(peer));
    families.root.hidden = peer.familyDetails.length === 0;
    families.update(peer.familyDetails.map(one => ({
      key: one.family,
      cells: [
        text(one.family), one.negotiated ? text('yes', 'tone-good') : text('no', 'tone-warn'),
        number(one.received), number(one.accepted), number(one.advertised),
        text([one.endOfRibSent && 'sent', one.endOfRibReceived && 'received'].filter(Boolean).join(', ')),
        one.stale ? text('yes', 'tone-warn') : text('no'),
      ],
    })));
  };
  return { root, update };
};

// A line that has nothing to say is left out.
const about = peer => {
  const facts = [];
  const say = (label, cell) => { if (cell && cell !== none) facts.push([label, cell]); };
  say('Address', mono(peer.address));
  say('Local address', mono(peer.localAddress));
  say('AS', text(systems(peer)));
  say('Router ID', mono(peer.routerId));
  say('State', row([state(peer.state, tone(peer.state)), since(peer), ...next(peer)]));
  say('Timers', text(timers(peer)));
  say('Restarting', peer.restarting ? text('yes, its routes are kept meanwhile', 'tone-warn') : null);
  say('Last error', lastError(peer));
  say('Sessions ended', number(peer.flaps));
  say('Messages', text(`${Draw.count(peer.messagesReceived)} received, ${Draw.count(peer.messagesSent)} sent`));
  say('End-of-RIB', text([peer.endOfRibSent && 'sent', peer.endOfRibReceived && 'received'].filter(Boolean).join(', ')));
  say('Pending', peer.pending ? text(`${peer.pending} (with the next session)`, 'tone-warn') : null);
  for (const missing of peer.notAnnounced) {
    say(`${family(missing.family)} not announced`, text(missing.reason, 'tone-warn'));
  }
  return facts;
};

const systems = peer => {
  if (peer.asn === null) return `any but ours, ${peer.localAsn}`;
  return peer.asn === peer.localAsn ? `${peer.asn} (internal)` : `${peer.asn} (external), ours is ${peer.localAsn}`;
};

const timers = peer => {
  const agreed = [
    peer.holdTimeSeconds !== null && `hold ${peer.holdTimeSeconds}s`,
    peer.keepaliveSeconds !== null && `keepalive ${peer.keepaliveSeconds}s`,
  ].filter(Boolean);
  if (agreed.length) return agreed.join(', ');
  return isUp(peer) ? 'none, silence is fine' : null;
};

// What happened, newest first.
const seen = [];
let before = null;
const remember = (peer, words, tone) => {
  seen.unshift({ at: new Date(), peer, words, tone });
  seen.length = Math.min(seen.length, REMEMBERED);
  document.getElementById('said').textContent = Draw.plain(`${peer} ${words}`);
};

/// Takes note of what became of the sessions, whichever view is open.
const note = summary => {
  const now = new Map(summary.peers.map(peer => [peer.name, peer]));
  if (before) {
    for (const [name, peer] of now) {
      const had = before.get(name);
      const why = peer.lastError ? `: ${peer.lastError}` : '';
      if (!had) remember(name, `is a new peer, ${peer.state}`, 'plain');
      else if (isUp(had) && !isUp(peer)) remember(name, `went down${why}`, 'bad');
      else if (!isUp(had) && isUp(peer)) remember(name, 'is Established', 'good');
      else if (isUp(peer) && peer.flaps > had.flaps) remember(name, `went down and came back${why}`, 'warn');
    }
    for (const name of before.keys()) if (!now.has(name)) remember(name, 'is no peer any more', 'plain');
  }
  before = now;
};

let root = null;
let table = null;
let empty = null;
let history = null;
let shown = null;

const build = () => {
  table = new Table.Table('BGP sessions', columns);
  empty = el('p', { class: 'empty' });
  history = el('ol', { class: 'history' });
  root = Draw.view('Sessions', empty, table.root, el('div', {}, el('h2', {}, 'Since this page was opened'), history));
  root.addEventListener('keydown', event => {
    if (event.key !== 'Escape' || opened.size === 0) return;
    opened.clear();
    draw();
  });
};

const draw = () => {
  if (!shown || !table) return;
  const words = shown.asn === null ? 'This node does not speak BGP: spec.bgp of its NodeConfig is not set.'
    : shown.peers.length === 0 ? 'No peers are configured: spec.bgp.peers of the NodeConfig is empty.' : '';
  empty.textContent = words;
  empty.hidden = words === '';
  table.root.hidden = words !== '';
  table.update(shown.peers.map(line));
  fill(history, seen.map(one => el('li', { class: `tone-${one.tone}` },
    el('time', { datetime: one.at.toISOString() }, one.at.toTimeString().slice(0, 8)),
    el('span', {}, el('b', {}, one.peer), ` ${one.words}`))));
  history.parentElement.hidden = seen.length === 0;
};

return {
  title: 'Sessions',
  tone,
  note,
  open: path => {
    if (!root) build();
    if (path) opened.add(path);
    return root;
  },
  refresh: summary => {
    shown = summary;
    draw();
  },
};
})();
