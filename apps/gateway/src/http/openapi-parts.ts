import { CATALOGUE, type ErrorEntry, type JsonObject } from '@toolfleet/contracts';

/** Builders for parts of the OpenAPI document of the public API. */
export const text = { type: 'string' } as const;
export const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` });
const json = (schema: JsonObject): JsonObject => ({ 'application/json': { schema } });
export const list = (items: JsonObject): JsonObject => ({ type: 'array', items });
export const answer = (description: string, schema: JsonObject): JsonObject => ({ description, content: json(schema) });
export const inPath = (name: string): JsonObject => ({ name, in: 'path', required: true, schema: text });
export const inQuery = (name: string, description: string, schema: JsonObject = text): JsonObject => ({
  name,
  in: 'query',
  description,
  schema,
});

/** Responses of refusals by status, each with its error codes from the catalogue. */
function refusals(): JsonObject {
  const byStatus = new Map<number, string[]>();
  for (const [code, entry] of Object.entries(CATALOGUE as Record<string, ErrorEntry>)) {
    if (entry.origin === 'request') byStatus.set(entry.http, [...(byStatus.get(entry.http) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus]
      .toSorted(([a], [b]) => a - b)
      .map(([status, codes]) => [String(status), answer(codes.join(', '), ref('Error'))]),
  );
}

/** One operation without the refusals, which all operations have. */
interface Operation {
  summary: string;
  parameters?: JsonObject[];
  body?: JsonObject;
  answers: JsonObject;
}

/** Builds an operation with all refusals. */
export function operation(id: string, { summary, parameters, body, answers }: Operation): JsonObject {
  return {
    operationId: id,
    summary,
    ...(parameters ? { parameters } : {}),
    ...(body ? { requestBody: { required: true, content: json(body) } } : {}),
    responses: { ...answers, ...refusals() },
  };
}
