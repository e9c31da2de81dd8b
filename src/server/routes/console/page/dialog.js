// Dialogs of the page.
import { button, field, h, typed, uid, wordsOf } from './dom.js';
import { t } from './i18n.js';

// Opens a dialog. Resolves to the result of `submit`, or to undefined if the user closes it. An
// error of `submit` is shown, and the dialog stays open.
export function ask({ title, body, action, danger, submit }) {
  return new Promise((resolve) => {
    const id = uid();
    const error = h('p.problem', { role: 'alert', hidden: true });
    const go = h('button', { class: danger ? 'danger' : 'main' }, action);
    let answer;
    const onsubmit = async (event) => {
      event.preventDefault();
      go.disabled = true;
      try {
        answer = await submit();
        dialog.close();
      } catch (problem) {
        error.hidden = false;
        error.textContent = wordsOf(problem);
      }
      go.disabled = false;
    };
    const dialog = h('dialog', { 'aria-labelledby': id, onclose: () => {
      dialog.remove();
      resolve(answer);
    } }, h('form', { onsubmit }, h('h2', { id }, title), body, error,
      h('.row.end', button(t('Cancel'), () => dialog.close()), go)));
    document.body.append(dialog);
    dialog.showModal();
  });
}

export function askToken(why) {
  const input = typed({ type: 'password', required: true });
  return ask({
    title: t('This service needs a token'),
    body: [
      h('p', why),
      field(t('Token'), input, t('Kept in memory until you close or reload the page, and nowhere else.')),
    ],
    action: t('Use this token'),
    submit: () => input.value.trim(),
  });
}
