import type { JsonObject } from '@toolfleet/contracts';
import { expect, it } from 'vitest';
import { readableJson, RepairingReadBuffer } from './foreign-answer.js';

const result = { content: [{ type: 'text', text: 'hi' }] };
const over = {
  HTTP: (message: JsonObject): unknown =>
    JSON.parse(readableJson(Buffer.from(JSON.stringify(message)), () => 7).toString()),
  stdio: (message: JsonObject): unknown => {
    const lines = new RepairingReadBuffer(() => 7);
    lines.append(Buffer.from(`${JSON.stringify(message)}\n`));
    return lines.readMessage();
  },
};

it.each(Object.entries(over))('over %s, an answer is read whatever it says about the only request', (_, read) => {
  for (const id of [7, null, {}, undefined]) {
    const message = { jsonrpc: '2.0', result, ...(id !== undefined && { id }) };
    expect(read(message), `id ${JSON.stringify(id)}`).toEqual({ jsonrpc: '2.0', id: 7, result });
  }
});

it.each(Object.entries(over))('over %s, an answer that names its request ends it without a result', (_, read) => {
  const ended = { jsonrpc: '2.0', id: 7, result: { content: null } };
  const rests: JsonObject[] = [{}, { result: null }, { error: null }, { debug: 1 }];
  for (const rest of rests) expect(read({ jsonrpc: '2.0', id: 7, ...rest })).toEqual(ended);
});
