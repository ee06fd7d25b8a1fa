'use strict';
// Why a prefix is told, or not: the agent's own sentences, and the facts behind them.

const Explain = (() => {
const { el, fill, none, text, state, tag, row } = Draw;

const headings = { origin: 'Origin', kernel: 'Kernel', peers: 'Peers', paths: 'Paths', covering: 'Around it', advice: 'Advice' };
const wanted = { prefix: '', peer: '' };
let root = null;
let parts = null;
let sign = '';

const build = () => {
  const find = Draw.search('explain-prefix', 'Prefix or address', '2001:db8::/64 or 10.0.0.7');
  const peer = el('select', { id: 'explain-peer', on: { change: go } });
  const form = el('form', { class: 'tools', on: { submit: go } },
    find, el('label', { for: 'explain-peer' }, 'Peer'), peer, el('button', {}, 'Explain'));
  const answer = el('div', { class: 'answer', 'aria-live': 'polite' });
  const peers = new Table.Table('Peers and this prefix', [['Peer'], ['Session'], ['Told'],
    ['When'], ['With, or why not', 'words']]);
  const paths = new Table.Table('Paths of this prefix', [['Path from'], ['Standing'],
    ['With, or why not', 'words']]);
  parts = { input: find[1], peer, answer, peers, paths };
  root = Draw.view('Explain', form, answer, el('div', { class: 'tables' }, peers.root, paths.root));
};

const go = event => {
  event.preventDefault();
  const peer = parts.peer.value;
  location.hash = `#/explain/${parts.input.value.trim()}${peer ? `?peer=${encodeURIComponent(peer)}` : ''}`;
};

const attributes = given => given ? [
  given.nextHop && `next hop ${given.nextHop}`, given.asPath.length && `AS path ${given.asPath.join(' ')}`,
  given.med !== null && `MED ${given.med}`, given.localPref !== null && `local preference ${given.localPref}`,
  [...given.communities, ...given.largeCommunities].join(' '),
].filter(Boolean).join(', ') : '';

const when = peer => {
  if (!peer.toldAt) return none;
  const at = new Date(peer.toldAt);
  return text(`${peer.toldExactly ? '' : 'by '}${at.toLocaleDateString('sv')} ${at.toTimeString().slice(0, 8)}`);
};

const peerLine = peer => ({
  key: peer.name,
  cells: [text(peer.name), state(peer.state, Sessions.tone(peer.state)),
    row([peer.told ? state('told', 'good') : state('not told', 'plain'), ...(peer.pending ? [tag('pending', 'warn')] : [])]),
    when(peer), row([text(attributes(peer.attributes)), text(peer.reason, 'tone-warn')].filter(one => one !== none))],
});

const pathLine = (path, at) => ({
  key: `${path.peer} ${at}`,
  cells: [path.peer === null ? tag('this node', 'own') : text(path.peer), Routes.standing(path),
    row([text(attributes(path.attributes)), text(path.refused || path.lost, 'tone-warn')].filter(one => one !== none))],
});

const show = said => {
  const tone = said.announced ? 'good' : said.known ? 'warn' : 'plain';
  const groups = new Map();
  for (const { about, text: words } of said.sentences) groups.set(about, [...(groups.get(about) || []), words]);
  const now = JSON.stringify([said.verdict, said.sentences]);
  if (now !== sign) {
    sign = now;
    fill(parts.answer, el('p', { class: `verdict state ${tone}` }, said.verdict), el('dl', {}, [...groups].map(([about, all]) =>
      el('div', {}, el('dt', {}, headings[about] || about), el('dd', {}, all.map(words => el('p', {}, words)))))));
  }
  parts.peers.update(said.peers.map(peerLine));
  parts.peers.root.hidden = said.peers.length === 0;
  parts.paths.update(said.paths.map(pathLine));
  parts.paths.root.hidden = said.paths.length === 0;
};

const clear = words => {
  sign = '';
  fill(parts.answer, el('p', { class: 'empty' }, words));
  parts.peers.root.hidden = parts.paths.root.hidden = true;
};

return {
  title: 'Explain',
  open: (path, query) => {
    if (!root) build();
    if (path !== wanted.prefix) clear('…');
    Object.assign(wanted, { prefix: path, peer: query.get('peer') || '' });
    if (document.activeElement !== parts.input) parts.input.value = path;
    if (!path) clear('Why is a prefix announced, or not? Write one above, or open a row of the routes.');
    return root;
  },
  refresh: async summary => {
    Routes.offer(parts.peer, summary.peers, wanted.peer);
    if (!wanted.prefix) return;
    const asked = wanted.prefix;
    try {
      const said = await Agent.ask('explain', wanted);
      if (said && asked === wanted.prefix) show(said);
    } catch (error) {
      if (!(error instanceof Agent.Refusal)) throw error;
      clear(error.message);
    }
  },
};
})();
