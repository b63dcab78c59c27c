/** Templates of the Helm chart: objects with placeholders become text with actions. */
import yaml from 'js-yaml';

/** A map or a list that a value replaces as a whole. */
const MAP = /^__(Values\.[\w.]+?)__$/;
const LIST = /^__List\.([\w.]+?)__$/;

/**
 * @param {object} object with placeholders such as `__Values.host__`
 * @param {string | undefined} condition of the whole object
 * @param {Map<string, string>} marks condition by JSON pointer
 * @param {string} [scaled] of a Deployment: the condition under which an autoscaler sizes its class
 * @returns {string} one document of a template
 */
export function template(object, condition, marks, scaled) {
  const lines = yaml
    .dump(withMarkers(object, '', marks), { lineWidth: -1, noRefs: true })
    .trimEnd()
    .split('\n')
    .map((line) => actions(line))
    .join('\n');
  const body = scaled === undefined ? `---\n${lines}` : asClass(object.metadata.name, lines, scaled);
  return condition === undefined ? `${body}\n` : `{{- if ${condition} }}\n${body}\n{{- end }}\n`;
}

/** The Deployment of a class goes through _helpers.tpl, where its values are set. */
function asClass(name, lines, scaled) {
  const context = `dict "root" . "name" "${name}" "scaled" ${scaled}`;
  return `{{- define "toolfleet.deployment.${name}" }}\n${lines}\n{{- end }}\n---\n{{ include "toolfleet.deployment" (${context}) }}`;
}

let markers = 0;

/** Puts markers around conditional parts, as keys or items of their own: js-yaml writes each on one line. */
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
      .replace(/['"]?__bound ([\w-]+) (\w+) (\d+)__['"]?$/, (_, name, bound, fallback) => {
        const context = `dict "root" . "name" "${name}" "bound" "${bound}" "fallback" ${fallback}`;
        return `{{ include "toolfleet.bound" (${context}) }}`;
      })
      .replaceAll('__Fleet__', '{{ include "toolfleet.name" . }}')
      .replace(/(^|[:-] )['"]?__((?:Values|Release)\.[\w.]+?)__['"]?$/, '$1{{ .$2 | toJson }}')
      .replaceAll(/__((?:Values|Release)\.[\w.]+?)__/g, '{{ .$1 }}')
  );
}
