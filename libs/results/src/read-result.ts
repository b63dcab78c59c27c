import type { JsonObject } from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import { closed, defaulted, integer, maybe, text, type Value } from '@toolfleet/contracts/json-schema';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { actingUserId, Executor, type Call } from '@toolfleet/engine';
import { PAGE_CHARS, showPart, type ResultReader } from './result-reader.js';

const ARGUMENTS = closed({
  handle: text('Handle of the result', { minLength: 1, maxLength: 255 }),
  select: maybe(
    text('Expression, such as "$.items[0:20]" (JSONPath) or "items[*].{id: id, name: name}" (JMESPath)', {
      minLength: 1,
      maxLength: 1_000,
    }),
  ),
  offset: defaulted(integer('Without select: first character of the page', { minimum: 0 }), 0),
  limit: defaulted(
    integer('Without select: most characters of the page', { minimum: 1, maximum: PAGE_CHARS.most }),
    PAGE_CHARS.default,
  ),
});

/** Definition of `read_result`, served by the gateway itself. It is free, and never cached because access may end. */
export const READ_RESULT: RegisteredTool = {
  name: 'read_result',
  version: '1.0.0',
  description:
    'Reads a kept result of an earlier call by its handle: a part that a JSONPath or JMESPath expression selects, or a page of ' +
    'its text (JSON as one line). A result that is too large to show comes as such a handle, with its shape.',
  category: 'data',
  tags: ['results', 'json'],
  input_schema: ARGUMENTS,
  binding: { kind: 'result' },
  source: { kind: 'builtin', name: 'gateway' },
  rate_limit: 600,
  idempotent: true,
  cache_ttl_seconds: 0,
  retry_policy: { kind: 'none' },
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  revision: '1',
  available: true,
};

/** Runs `read_result` in this process. */
export class ResultExecutor extends Executor {
  constructor(private readonly reader: Pick<ResultReader, 'read'>) {
    super();
  }

  override async execute({ request, arguments: args, signal }: Call): Promise<ExecResponse> {
    const { principal, context } = request;
    const { session_id: id } = context;
    const session = typeof id === 'string' ? { id, userId: actingUserId(request) } : undefined;
    const { handle, ...asked } = args as Value<typeof ARGUMENTS> & JsonObject;
    const part = await this.reader.read({ principal, session, signal }, handle, asked);
    return { ok: true, output: part.output ?? part, text: showPart(part), metadata: {} };
  }
}
