import {
  type JsonObject,
  isJsonObject,
  ToolError,
  type CallBody,
  type Json,
  type Principal,
} from '@toolfleet/contracts';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { Body, Controller, Req, Res } from '@nestjs/common';
import { readBatchBody } from '@toolfleet/engine/batch';
import type { CallFields } from '@toolfleet/contracts/call-fields';
import { formatTool, toolMetadata, ToolList, ToolSearch } from '@toolfleet/catalog';
import type { FastifyReply } from 'fastify';
import { Caller } from '../server/guards.js';
import { BatchedCalls, ToolCalls } from '../calls/tool-calls.js';
import { Input, Serves } from '../server/routes.js';
import { HttpCalls, withHeaderFields, type HttpRequest } from './http-call.js';

const DEFAULT_SELECTED = 2;

/** The endpoints of Shannon's tool service, with the authentication and limits of this gateway. */
@Controller()
export class ShannonController {
  constructor(
    private readonly list: ToolList,
    private readonly calls: ToolCalls,
    private readonly batches: BatchedCalls,
    private readonly search: ToolSearch,
    private readonly http: HttpCalls,
  ) {}

  @Serves('GET /tools/list')
  async names(@Caller() caller: Principal, @Input() { query }: RouteInput<'GET /tools/list'>): Promise<string[]> {
    return (await this.list.page(caller, { category: query.category })).tools.map((tool) => tool.name);
  }

  @Serves('GET /tools/categories')
  async categories(@Caller() caller: Principal): Promise<string[]> {
    return [...new Set((await this.list.all(caller)).tools.map((tool) => tool.category))].toSorted();
  }

  @Serves('GET /tools/schemas')
  async schemas(@Caller() caller: Principal, @Input() { query }: RouteInput<'GET /tools/schemas'>) {
    const { category, schema_style: style } = query;
    const { tools } = await this.list.page(caller, { category });
    return tools.map((tool) => toSchema(formatTool(tool, 'native', style)));
  }

  @Serves('GET /tools/{name}/schema')
  async schema(@Caller() caller: Principal, @Input() { path, query }: RouteInput<'GET /tools/{name}/schema'>) {
    return toSchema(formatTool(await this.list.one(caller, path.name), 'native', query.schema_style));
  }

  @Serves('GET /tools/{name}/metadata')
  async metadata(@Caller() caller: Principal, @Input() { path }: RouteInput<'GET /tools/{name}/metadata'>) {
    return toolMetadata(await this.list.one(caller, path.name));
  }

  @Serves('POST /tools/execute')
  async execute(
    @Input() { body }: RouteInput<'POST /tools/execute'>,
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const fields = withHeaderFields(request, readSession(body.session_context));
    const call = this.http.toCallRequest(request, reply, body.tool_name, body.parameters, fields);
    return shannonBody((await this.http.traced(request, () => this.calls.run(call))).body);
  }

  /**
   * An array of calls, or an object with `calls` and fields for all, in; an array in the same order out. An unknown tool is an item
   * with `success: false`.
   */
  @Serves('POST /tools/batch-execute')
  async batch(@Body() raw: unknown, @Req() request: HttpRequest, @Res({ passthrough: true }) reply: FastifyReply) {
    const { calls, fields } = readBatchBody(raw, 'http-batch');
    const shared = withHeaderFields(request, fields);
    return this.http.traced(request, () =>
      this.batches.run(
        calls,
        shared,
        this.http.batchSender(request, reply),
        (name, args, own, { session_context: session }) =>
          this.http.toCallRequest(request, reply, name, args, { ...own, ...readSession(session) }),
        shannonBody,
      ),
    );
  }

  @Serves('POST /tools/select')
  async select(@Caller() caller: Principal, @Input() { body }: RouteInput<'POST /tools/select'>) {
    const { task, max_tools: maxTools = DEFAULT_SELECTED } = body;
    const found = await this.search.rank(caller, task, maxTools);
    return {
      selected_tools: found.map(({ name }) => name),
      // Keyword search finds tools but no arguments.
      calls: found.map(({ name }) => ({ tool_name: name, parameters: {} })),
      provider_used: 'keyword',
    };
  }
}

function toSchema({ name, description, parameters }: JsonObject): JsonObject {
  return { name: name ?? null, description: description ?? null, parameters: parameters ?? null };
}

/** Of a public caller only `session_id` is used. @throws ToolError REQUEST_INVALID */
function readSession(context: Json | undefined): CallFields {
  if (context !== undefined && context !== null && !isJsonObject(context))
    throw new ToolError('REQUEST_INVALID', { message: 'session_context must be an object' });
  const id = context?.session_id;
  if (id === undefined || id === null) return {};
  if (typeof id !== 'string' || id === '')
    throw new ToolError('REQUEST_INVALID', { message: 'session_context.session_id must be a string' });
  return { session_id: id };
}

/** Shannon's form of a result, and the rich content that Shannon lacks. */
function shannonBody({ success, output, text, error, metadata, execution_time_ms, content }: CallBody) {
  return { success, output, text, error, metadata, execution_time_ms, content };
}

/** `POST /mcp/mock`: the function endpoint of smoke tests, in local mode only. */
@Controller()
export class MockFunctionController {
  @Serves('POST /mcp/mock')
  call(@Body() body: unknown) {
    if (!isJsonObject(body) || body.function !== 'echo') {
      throw new ToolError('REQUEST_INVALID', {
        message: "function must be 'echo'",
        details: { fields: ['function'] },
      });
    }
    return { ok: true, function: 'echo', echo: body.args ?? {} };
  }
}
