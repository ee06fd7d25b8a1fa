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
  const verdict = el('p', { class: 'verdict', role: 'status' });
  const answer = el('div', { class: 'answer' });
  const peers = new Table.Table('Peers and this prefix', [['Peer'], ['Session'], ['Told'],
    ['When'], ['With, or why not', 'words']]);
  const paths = new Table.Table('Paths of this prefix', [['Path from'], ['Standing'],
    ['With, or why not', 'words']]);
  // Their words have ages in them, which always change.
  peers.isQuiet = paths.isQuiet = true;
  parts = { input: find[1], peer, verdict, answer, peers, paths };
  root = Draw.view('Explain', form, verdict, answer, el('div', { class: 'tables' }, peers.root, paths.root));
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
    when(peer), row([text(attributes(peer.attributes)), text(peer.reason, 'past')].filter(one => one !== none))],
});

const pathLine = (path, at) => ({
  key: `${path.peer} ${at}`,
  cells: [path.peer === null ? tag('this node', 'own') : text(path.peer), Routes.standing(path),
    row([text(attributes(path.attributes)), text(path.refused || !path.equal && path.lost, 'past')].filter(one => one !== none))],
});

const show = said => {
  // What is ours is well when all were told of it; what is not, when it is used.
  const isWell = said.origin ? said.peers.every(peer => peer.told && !peer.pending) : said.paths.some(path => path.best);
  const tone = isWell ? 'good' : said.known ? 'warn' : 'plain';
  const now = JSON.stringify([said.verdict, said.sentences]);
  if (now !== sign) {
    sign = now;
    const groups = new Map(said.sentences.map(one => [one.about, []]));
    said.sentences.forEach(one => groups.get(one.about).push(el('p', {}, one.text)));
    conclude(said.verdict, `state ${tone}`);
    fill(parts.answer, el('dl', {}, [...groups].map(([about, all]) =>
      el('div', {}, el('dt', {}, headings[about] || about), el('dd', {}, all)))));
  }
  parts.peers.update(said.peers.map(peerLine));
  parts.paths.update(said.paths.map(pathLine));
  parts.peers.root.hidden = said.peers.length === 0;
  parts.paths.root.hidden = said.paths.length === 0;
};

const conclude = (words, look) => {
  parts.verdict.className = `verdict ${look}`;
  if (parts.verdict.textContent !== Draw.plain(words)) fill(parts.verdict, words);
  parts.verdict.hidden = words === '';
};

const clear = words => {
  sign = '';
  conclude('', '');
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
