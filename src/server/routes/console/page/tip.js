// Explains the words that only Raindrop uses, beside where they stand.
import { announce, button, h } from './dom.js';
import { t } from './i18n.js';

const WORDS = {
  lane: 'One value of the rollback bits. When the clock goes back, a node goes on in another lane of its worker id, and so repeats no ID.',
  step: 'How many numbers the next block will have that a node reserves for this code. It grows and shrinks with the demand.',
  'in hand': 'Numbers that this node has reserved and not issued yet. It issues them without the store; a crash loses them.',
  epoch: 'The instant at which the timestamp of an ID is 0. IDs of another epoch have other times.',
};

export function tip(word) {
  const text = t(WORDS[word]);
  const show = ({ currentTarget: at }) => {
    const box = h('.tipped', { popover: 'auto', ontoggle: ({ newState }) => newState === 'closed' && box.remove() }, text);
    // Only the content of an open dialog is not inert.
    at.closest('dialog, main').append(box);
    box.showPopover();
    const { left, bottom } = at.getBoundingClientRect();
    box.style.left = `${Math.max(8, Math.min(left, innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${bottom + 4}px`;
    announce(text);
  };
  return button('?', show, { class: 'tip', title: text, 'aria-label': t('What is this?') });
}
