/**
 * Templates of the Helm chart: objects with placeholders become text with actions, and the renderer of the checks makes objects of
 * them again. Both keep to a small part of the language of Helm, so that the renderer is a page: `if`, `eq`, `list`, `toJson`,
 * `toYaml`, `nindent`, `sha256sum`, strings, and paths of values.
 */
import { createHash } from 'node:crypto';
import yaml from 'js-yaml';

/** A map or a list that a value replaces as a whole. */
const MAP = /^__(Values\.[\w.]+?)__$/;
const LIST = /^__List\.([\w.]+?)__$/;

/**
 * @param {object} object with placeholders such as `__Values.host__`
 * @param {string | undefined} condition of the whole object
 * @param {Map<string, string>} marks condition by JSON pointer
 * @returns {string} one document of a template
 */
export function template(object, condition, marks) {
  const lines = yaml
    .dump(withMarkers(object, '', marks), { lineWidth: -1, noRefs: true })
    .trimEnd()
    .split('\n');
  const body = ['---', ...lines.map((line) => actions(line))].join('\n');
  return condition === undefined ? `${body}\n` : `{{- if ${condition} }}\n${body}\n{{- end }}\n`;
}

let markers = 0;

/** Puts markers around what is conditional, as keys or items of their own: js-yaml writes each on one line. */
function withMarkers(node, pointer, marks) {
  if (Array.isArray(node)) {
    const list = LIST.exec(node[0])?.[1];
    if (list !== undefined) return `__Values.${list}__`;
    if (node.length > 0 && node.every((_, index) => marks.has(`${pointer}/${index}`)))
      throw new Error(`${pointer}: every item is conditional; an empty list has another meaning`);
    return node.flatMap((item, index) => {
      const made = withMarkers(item, `${pointer}/${index}`, marks);
      const condition = marks.get(`${pointer}/${index}`);
      return condition === undefined ? [made] : [`__if ${condition}__`, made, '__end 0__'];
    });
  }
  if (node === null || typeof node !== 'object') return node;
  return Object.fromEntries(
    Object.entries(node).flatMap(([key, value]) => {
      const map = MAP.exec(key)?.[1];
      if (map !== undefined) return [[`__yaml ${map}__`, null]];
      const made = [key, withMarkers(value, `${pointer}/${key}`, marks)];
      const condition = marks.get(`${pointer}/${key}`);
      if (condition === undefined) return [made];
      markers += 1;
      return [[`__if ${condition} ${markers}__`, null], made, [`__end ${markers}__`, null]];
    }),
  );
}

function actions(line) {
  const [, indent, marker] = /^(\s*)(?:- )?['"]?__((?:if|end|yaml)\b.*?)__['"]?(?:: null)?$/.exec(line) ?? [];
  if (marker !== undefined) {
    const [word, path] = marker.split(' ');
    if (word === 'if') return `${indent}{{- if ${path} }}`;
    if (word === 'end') return `${indent}{{- end }}`;
    return `${indent}{{- toYaml .${path} | nindent ${indent.length} }}`;
  }
  return (
    line
      .replaceAll('{{', '{{ "{{" }}')
      // In quotes: a hash of digits alone is a number.
      .replace(/['"]?__checksum ([\w. ]+)__['"]?$/, (_, paths) => {
        const values = paths.split(' ').map((path) => `.${path}`);
        return `"{{ list ${values.join(' ')} | toJson | sha256sum }}"`;
      })
      .replace(/(^|[:-] )['"]?__((?:Values|Release)\.[\w.]+?)__['"]?$/, '$1{{ .$2 | toJson }}')
      .replaceAll(/__((?:Values|Release)\.[\w.]+?)__/g, '{{ .$1 }}')
  );
}

const FUNCTIONS = {
  eq: (a, b) => a === b,
  list: (...items) => items,
  toJson: (value) => JSON.stringify(value),
  toYaml: (value) => yaml.dump(value).trimEnd(),
  nindent: (count, text) => `\n${text.replaceAll(/^/gm, ' '.repeat(count))}`,
  sha256sum: (text) => createHash('sha256').update(text).digest('hex'),
};

/**
 * Renders the text of a template.
 * @param {{ Values: object, Release: { Namespace: string, Service: string } }} scope
 * @throws Error for a missing value, an unknown function, or an action that is not closed
 */
export function renderTemplate(text, scope) {
  const out = [];
  /** Whether the branches that are open are taken. */
  const open = [];
  let at = 0;
  const emit = (part) => open.every(Boolean) && out.push(part);
  for (const match of text.matchAll(/(\s*)\{\{(-?)\s*("\{\{"|[^]*?)\s*\}\}/g)) {
    const [whole, space, trims, action] = match;
    emit(text.slice(at, match.index) + (trims === '-' ? '' : space));
    at = match.index + whole.length;
    if (action === 'end') {
      if (open.length === 0) throw new Error('{{ end }} without {{ if }}');
      open.pop();
    } else if (action.startsWith('if ')) open.push(open.every(Boolean) && Boolean(evaluate(action.slice(3), scope)));
    else if (open.every(Boolean)) out.push(String(evaluate(action, scope)));
  }
  if (open.length > 0) throw new Error('an {{ if }} is not closed');
  emit(text.slice(at));
  return out.join('');
}

/** A pipeline: each command takes the result of the previous one as its last argument. */
function evaluate(pipeline, scope) {
  return pipeline.split(' | ').reduce((input, command, index) => {
    const [head, ...rest] = command.match(/"[^"]*"|\S+/g);
    const given = index === 0 ? [] : [input];
    if (!/^\w/.test(head) || /^\d/.test(head)) return term(head, scope);
    const call = FUNCTIONS[head];
    if (call === undefined) throw new Error(`the function ${head} is not one of ${Object.keys(FUNCTIONS).join(', ')}`);
    return call(...rest.map((word) => term(word, scope)), ...given);
  }, undefined);
}

function term(word, scope) {
  if (word.startsWith('"')) return word.slice(1, -1);
  if (/^\d+$/.test(word)) return Number(word);
  const value = word
    .slice(1)
    .split('.')
    .reduce((part, key) => part?.[key], scope);
  if (value === undefined) throw new Error(`${word} has no value`);
  return value;
}
