import { isJsonObject, ToolError, type AcceptedBody, type JsonObject, type Principal } from '@toolfleet/contracts';
import { readCallFields, type CallFieldsOn } from '@toolfleet/contracts/call-fields';
import {
  formatTool,
  briefTool,
  findTools,
  namedTools,
  ToolList,
  type ToolPage,
  ToolSearch,
  ToolInventory,
} from '@toolfleet/catalog';
import { readBatchBody } from '@toolfleet/engine/batch';
import type { ListedTool, RouteInput } from '@toolfleet/contracts/resources';
import { Controller, Req, Res } from '@nestjs/common';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { FastifyReply } from 'fastify';
import { bodyObject } from '../server/request-body.js';
import { Input, Serves } from '../server/routes.js';
import { Caller } from '../server/guards.js';
import { BatchedCalls, ToolCalls } from '../calls/tool-calls.js';
import { MAX_STUBS, toolModels, toolStubs, toolTypes } from '@toolfleet/programs';
import { HttpCalls, withHeaderFields, type HttpRequest } from './http-call.js';

/** Body of `POST /api/v1/tools/:name/execute`. */
type ExecuteToolBody = CallFieldsOn<'http'> & { arguments: JsonObject };

/** @throws ToolError REQUEST_INVALID */
function readExecuteToolBody(body: unknown): ExecuteToolBody {
  const source = bodyObject(body);
  const fields = readCallFields(source, 'http', ['arguments']);
  if (!isJsonObject(source.arguments)) {
    const reason = 'arguments is required and must be an object';
    throw new ToolError('REQUEST_INVALID', {
      message: `Invalid request: ${reason}`,
      details: { fields: ['arguments'], reasons: [reason] },
    });
  }
  return { ...fields, arguments: source.arguments };
}

/** Default limit of a query. */
const DEFAULT_FOUND = 20;

type ListQuery = RouteInput<'GET /api/v1/tools'>['query'];

/** @throws ToolError REQUEST_INVALID for parameters that exclude each other */
function checkCombination(query: ListQuery): void {
  const { names, detail = 'full', format } = query;
  const others = (['query', 'category', 'source', 'limit', 'cursor'] as const).filter(
    (one) => query[one] !== undefined,
  );
  if (names !== undefined && others.length > 0) exclude(['names', ...others], 'names chooses tools without');
  if (detail !== 'full' && format !== undefined) exclude(['detail', 'format'], `detail=${detail} has no`);
}

function exclude(fields: string[], reason: string): never {
  const message = `Invalid request: ${reason} ${fields.slice(1).join(', ')}`;
  throw new ToolError('REQUEST_INVALID', { message, details: { fields } });
}

/** Forms of tools that are texts. */
const TEXTS = {
  python: { type: 'text/x-python', write: toolStubs },
  pydantic: { type: 'text/x-python', write: toolModels },
  typescript: { type: 'text/x-typescript', write: toolTypes },
} as const;
const isText = (format: string): format is keyof typeof TEXTS => Object.hasOwn(TEXTS, format);

/** @throws ToolError REQUEST_INVALID for more tools than one text may have */
function sendText(reply: FastifyReply, format: keyof typeof TEXTS, tools: readonly RegisteredTool[]): string {
  if (tools.length > MAX_STUBS) {
    const message = `format=${format} has at most ${MAX_STUBS} tools, not ${tools.length}; choose some by names, query, category, source or limit`;
    throw new ToolError('REQUEST_INVALID', { message, details: { fields: ['format'] } });
  }
  const { type, write } = TEXTS[format];
  void reply.header('Content-Type', `${type}; charset=utf-8`);
  return write(tools);
}

/** Answers 202 with the location of the call. */
function toAccepted(reply: FastifyReply, accepted: AcceptedBody): AcceptedBody {
  void reply.status(202).header('Location', `/api/v1/calls/${accepted.call_id}`);
  return accepted;
}

/** The Tools API. */
@Controller()
export class ToolsController {
  constructor(
    private readonly list: ToolList,
    private readonly calls: ToolCalls,
    private readonly batches: BatchedCalls,
    private readonly http: HttpCalls,
    private readonly search: ToolSearch,
  ) {}

  /**
   * The tools a caller may call, as an array; with `limit` one page, and `Link: rel="next"` to the next. `query` finds tools, `names`
   * chooses them; `detail` shortens them to names or summaries, and `format=python` or `typescript` is the text of their types.
   */
  @Serves('GET /api/v1/tools')
  async all(
    @Caller() caller: Principal,
    @Input() { query: wanted }: RouteInput<'GET /api/v1/tools'>,
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    checkCombination(wanted);
    const { detail = 'full', format = 'native', schema_style: style } = wanted;
    const page = await this.find(caller, wanted);
    if (page.next !== undefined) {
      const url = new URL(request.url, 'http://gateway');
      url.searchParams.set('cursor', page.next);
      void reply.header('Link', `<${url.pathname}${url.search}>; rel="next"`);
    }
    if (page.stale) void reply.header('Warning', '110 toolfleet "Response is stale"');
    if (isText(format)) return sendText(reply, format, page.tools);
    const shown = page.tools.map((tool) =>
      detail === 'full' ? formatTool(tool, format, style) : briefTool(tool, detail),
    );
    return shown as ListedTool[]; // or in the form that the query asks for
  }

  private async find(
    caller: Principal,
    { query, names, category, source, limit, cursor }: ListQuery,
  ): Promise<Omit<ToolPage, 'tools'> & { tools: readonly RegisteredTool[] }> {
    const { tools, stale } = await this.list.all(caller);
    if (names !== undefined)
      return {
        tools: namedTools(
          tools,
          names.split(',').map((name) => name.trim()),
        ),
        stale,
      };
    const found = await findTools(
      {
        list: async () => tools,
        search: (...wanted) => this.search.rank(caller, ...wanted),
      },
      { query, category, source, cursor, limit: limit ?? (query === undefined ? undefined : DEFAULT_FOUND) },
    );
    return { ...found, stale };
  }

  /** One tool in the requested format. */
  @Serves('GET /api/v1/tools/{name}')
  async one(
    @Caller() caller: Principal,
    @Input() { path, query }: RouteInput<'GET /api/v1/tools/{name}'>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const { format = 'native', schema_style: style } = query;
    const tool = await this.list.one(caller, path.name);
    return isText(format) ? sendText(reply, format, [tool]) : (formatTool(tool, format, style) as ListedTool);
  }

  /** Tool calls in the shapes of `readBatch`; an array, or an object with `calls`. `format` chooses the shape of all answers. */
  @Serves('POST /api/v1/tools/batch-execute')
  batch(
    @Input() { query, body }: RouteInput<'POST /api/v1/tools/batch-execute'>,
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const { calls, fields } = readBatchBody(body, 'http-batch');
    const shared = withHeaderFields(request, fields);
    return this.http.traced(request, () =>
      this.batches.records(
        calls,
        shared,
        this.http.batchSender(request, reply),
        (name, args, own) => this.http.toCallRequest(request, reply, name, args, own),
        query.format,
      ),
    );
  }

  /**
   * Runs one call. `mode: async` answers 202 with the location of the call, and so does a call that is parked for an approval; a dry run
   * is always answered at once.
   */
  @Serves('POST /api/v1/tools/{name}/execute')
  async execute(
    @Input() { path, body }: RouteInput<'POST /api/v1/tools/{name}/execute'>,
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const fields = withHeaderFields(request, readExecuteToolBody(body));
    const call = this.http.toCallRequest(request, reply, path.name, fields.arguments, fields);
    if (fields.mode === 'async' && !fields.dry_run) {
      return toAccepted(reply, await this.http.traced(request, () => this.calls.accept(call)));
    }
    const outcome = await this.http.traced(request, () => this.calls.runOrPark(call));
    if ('waiting' in outcome) return toAccepted(reply, outcome.waiting);
    if (outcome.replayed) void reply.header('X-Idempotency-Cached', 'true');
    return outcome.body;
  }
}

/** Tools with all properties, for operators' views. `api/v1/tools` lists the tools to call. */
@Controller()
export class CatalogController {
  constructor(private readonly inventory: ToolInventory) {}

  @Serves('GET /api/v1/catalog')
  async all(@Caller() caller: Principal, @Res({ passthrough: true }) reply: FastifyReply) {
    const { tools, stale } = await this.inventory.list(caller);
    if (stale) void reply.header('Warning', '110 toolfleet "Response is stale"');
    return tools;
  }

  @Serves('GET /api/v1/catalog/{name}')
  one(@Caller() caller: Principal, @Input() { path }: RouteInput<'GET /api/v1/catalog/{name}'>) {
    return this.inventory.one(caller, path.name);
  }
}
