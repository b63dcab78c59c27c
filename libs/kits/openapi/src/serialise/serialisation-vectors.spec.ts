import type { Json, JsonObject } from '@toolfleet/base';
import { readTestData } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { convertDocument } from '../convert/convert-document.js';
import { parseSpec } from '../load/parse-spec.js';
import { buildRequest, type BuiltRequest } from './build-request.js';

/** Expected serialisations by the style table of OpenAPI 3.1.1 and RFC 6570; the file's `note` explains its fields. */
interface Vector {
  id: string;
  level: 'core' | 'edge' | 'convention';
  in: 'path' | 'query' | 'header' | 'cookie' | 'formBody' | 'multi';
  name: string;
  type?: string;
  style?: string;
  explode?: boolean;
  allowReserved?: boolean;
  content?: string;
  encoding?: JsonObject;
  value?: Json;
  params?: (JsonObject & { name: string; value: Json })[];
  expected: string | null;
}

const { vectors } = readTestData<{ vectors: Vector[] }>('serialisation-vectors.json');

describe('serialisation vectors', () => {
  it.each(vectors.map((vector) => [vector.id, vector] as const))('%s is exact', (_, vector) => {
    expect(observed(vector, send(vector))).toBe(vector.expected ?? '');
  });
});

/** Builds the vector's operation as a document, so that defaults pass through the conversion as they do in a call. */
function send(vector: Vector): BuiltRequest {
  const path = vector.in === 'path' ? `/p/{${vector.name}}/x` : '/p';
  const operation: JsonObject = { operationId: 'probe', responses: {} };
  const args: JsonObject = {};
  if (vector.in === 'formBody') {
    const media: JsonObject = { schema: { type: 'object' }, ...(vector.encoding ? { encoding: vector.encoding } : {}) };
    operation.requestBody = { content: { 'application/x-www-form-urlencoded': media } };
    args.body = vector.value as Json;
  } else if (vector.in === 'multi') {
    operation.parameters = (vector.params ?? []).map(({ value, ...parameter }) => {
      args[parameter.name] = value;
      return parameter;
    });
  } else {
    operation.parameters = [parameterOf(vector)];
    const absent = typeof vector.value === 'object' && vector.value !== null && '$absent' in vector.value;
    if (!absent) args[vector.name] = vector.value as Json;
  }
  const method = vector.in === 'formBody' ? 'post' : 'get';
  const text = JSON.stringify({ openapi: '3.1.0', paths: { [path]: { [method]: operation } } });
  const tool = convertDocument(parseSpec(text)).tools[0];
  return buildRequest(tool!.plan(), 'http://h.test', args);
}

function parameterOf(vector: Vector): JsonObject {
  const parameter: JsonObject = { name: vector.name, in: vector.in, required: vector.in === 'path' };
  if (vector.content) return { ...parameter, content: { [vector.content]: { schema: {} } } };
  parameter.schema = vector.type ? { type: vector.type } : {};
  if (vector.style !== undefined) parameter.style = vector.style;
  if (vector.explode !== undefined) parameter.explode = vector.explode;
  if (vector.allowReserved !== undefined) parameter.allowReserved = vector.allowReserved;
  return parameter;
}

function observed(vector: Vector, request: BuiltRequest): string {
  const header = (name: string) => request.headers.find(([key]) => key.toLowerCase() === name.toLowerCase())?.[1] ?? '';
  if (vector.in === 'path') return request.target;
  if (vector.in === 'header') return header(vector.name);
  if (vector.in === 'cookie') return header('Cookie');
  if (vector.in === 'formBody') return String(request.body);
  return request.target.split('?').slice(1).join('?');
}
