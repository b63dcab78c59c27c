/** Compares what a fleet recorded with the table of the OpenTelemetry conventions (libs/telemetry/src/conventions.ts). */
import { ATTR, LABEL, SIGNALS, type AttributeKey, type Signal } from '@toolfleet/telemetry';
import { ATTRIBUTE_TYPES } from '../../libs/telemetry/spec/convention-models.js';
import type { SeenSpan } from './otlp-sink.js';

/** Namespaces of the conventions in which every name must be one of the table. */
const NAMESPACES = /^(gen_ai|mcp|jsonrpc|rpc|network|server|error)\./;
/** Our own attribute in one of them: the code of an error, more exact than its type. */
const OWN = new Set(['error.code']);
/** Attributes that every span may have: https://opentelemetry.io/docs/specs/semconv/general/attributes/ */
const ANY_SPAN: readonly AttributeKey[] = ['errorType', 'serverAddress', 'serverPort'];
const KEY_BY_NAME = new Map(Object.entries(ATTR).map(([key, name]) => [name as string, key as AttributeKey]));
const KEY_BY_LABEL = new Map(Object.entries(LABEL).map(([key, label]) => [label as string, key as AttributeKey]));
/** Labels that are not attributes. */
const BUCKET_LABEL = 'le';

/** The violations of a span, each as a sentence. */
export function conventionFaults(span: SeenSpan): string[] {
  const signal = signalOf(span);
  const allowed = new Set<AttributeKey>([...(signal ? keysOf(signal) : []), ...ANY_SPAN]);
  const faults: string[] = [];
  for (const [name, value] of Object.entries(span.attributes)) {
    if (!NAMESPACES.test(name) || OWN.has(name)) continue;
    const key = KEY_BY_NAME.get(name);
    if (!key || !allowed.has(key)) faults.push(`may not have ${name}`);
    else if (typeof value !== (ATTRIBUTE_TYPES[key] === 'int' ? 'number' : 'string'))
      faults.push(`has a ${typeof value} as ${name}`);
  }
  if (signal) {
    for (const key of required(signal)) if (!span.attributes[ATTR[key]]) faults.push(`lacks ${ATTR[key]}`);
    if (signal.kind !== span.kind) faults.push(`is ${span.kind}, not ${signal.kind}`);
    if (span.failed !== (span.attributes[ATTR.errorType] !== undefined))
      faults.push('fails without error.type, or has one');
  }
  return faults.map((fault) => `${span.service} ${span.name}: ${fault}`);
}

/** The violations of the metrics of a process in these namespaces, each as a sentence. */
export function metricFaults(text: string): string[] {
  const faults = new Set<string>();
  for (const [, metric = '', labels = ''] of text.matchAll(
    /^((?:gen_ai|mcp)_\w+?)(?:_bucket|_sum|_count)\{(.*)\} /gm,
  )) {
    const found = Object.entries(SIGNALS).find(([name]) => `${name.replaceAll('.', '_')}_seconds` === metric);
    if (!found) {
      faults.add(`${metric}: unknown`);
      continue;
    }
    const signal: Signal = found[1];
    const names = [...labels.matchAll(/(\w+)="[^"]+"/g)]
      .map(([, name = '']) => name)
      .filter((name) => name !== BUCKET_LABEL);
    const keys = names.map((name) => KEY_BY_LABEL.get(name));
    names.forEach((name, index) => {
      const key = keys[index];
      if (!key || !keysOf(signal).includes(key)) faults.add(`${metric}: may not have ${name}`);
    });
    for (const key of required(signal)) if (!keys.includes(key)) faults.add(`${metric}: lacks ${LABEL[key]}`);
  }
  return [...faults];
}

function signalOf({ kind, attributes }: SeenSpan): Signal | undefined {
  if (ATTR.mcpMethod in attributes) return kind === 'client' ? SIGNALS['mcp.client'] : SIGNALS['mcp.server'];
  return ATTR.operationName in attributes ? SIGNALS['gen_ai.execute_tool.internal'] : undefined;
}

const keysOf = ({ attributes }: Signal): AttributeKey[] => Object.keys(attributes) as AttributeKey[];
const required = (signal: Signal): AttributeKey[] =>
  keysOf(signal).filter((key) => signal.attributes[key] === 'required');
