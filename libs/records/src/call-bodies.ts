import { jsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { KeptBody } from '@toolfleet/contracts/resources';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { recordedTool, type AuditRecord } from '@toolfleet/engine';
import { toolAllowed } from '@toolfleet/engine/access';
import type { FleetFile } from '@toolfleet/fleet-file';
import { BoundedCopy } from './bounded-copy.js';
import { hiddenNames, type HiddenNames } from './hidden-names.js';

type BodiesSection = FleetFile['call_bodies'];
type BodyMode = NonNullable<BodiesSection['keep']>;

/** Of which calls arguments and results are kept, and what of them. `keep` decides where no rule matches. */
export type BodySettings = BodiesSection & { keep: BodyMode };

const DEFAULT_MAX_BYTES = 65_536;

/** Arguments and result of a call as they are kept, with their size. */
interface SizedBody {
  body: KeptBody;
  bytes: number;
}

/** Decides of which calls arguments and results are kept, redacts them and cuts them to a size. */
export class CallBodies {
  readonly #hidden = new WeakMap<RegisteredTool, HiddenNames>();
  readonly #maxBytes: number;

  constructor(private readonly settings: BodySettings) {
    this.#maxBytes = settings.max_bytes ?? DEFAULT_MAX_BYTES;
  }

  /** Whether any call may be kept. */
  get isOn(): boolean {
    const { keep, rules = [] } = this.settings;
    return keep !== 'off' || rules.some((rule) => rule.keep !== 'off');
  }

  /** The kept parts of an ended call; undefined for none. */
  of(record: AuditRecord): SizedBody | undefined {
    const { request, tool } = record.call;
    const mode = this.#mode(request.principal.tenantId, recordedTool(record.call));
    if (mode === 'off' || (mode === 'failures' && record.ok && !record.result?.replaced)) return undefined;
    const copy = new BoundedCopy(this.#hiddenOf(tool), this.#maxBytes);
    const body: KeptBody = {};
    const add = (
      part: Exclude<keyof KeptBody, 'cut' | 'redacted'>,
      value: Json | undefined,
      maxBytes?: number,
    ): void => {
      if (value === undefined) return;
      body[part] = copy.copy(value, maxBytes) as never;
      if (copy.isCut) (body.cut ??= []).push(part);
      if (copy.isRedacted) (body.redacted ??= []).push(part);
    };
    const parts = { errors: toErrors(record), upstream: toUpstream(record), result: toResult(record) };
    for (const part of [request.input.rawArguments, ...Object.values(parts)]) copy.learn(part);
    // The most useful first. Arguments leave half of the room, because a call that failed is examined by its errors.
    add('arguments', request.input.rawArguments, this.#maxBytes / 2);
    for (const [part, value] of Object.entries(parts) as [keyof typeof parts, Json | undefined][]) add(part, value);
    return { body, bytes: copy.bytes };
  }

  #mode(tenantId: string, tool: string): BodyMode {
    const { keep, rules = [] } = this.settings;
    const rule = rules.find(
      ({ tenants, tools }) => (tenants?.includes(tenantId) ?? true) && (!tools || toolAllowed(tools, tool)),
    );
    return rule?.keep ?? keep;
  }

  #hiddenOf(tool: RegisteredTool | undefined): HiddenNames {
    const known = tool && this.#hidden.get(tool);
    if (known) return known;
    const paths = Object.entries(this.settings.redact ?? {}).flatMap(([pattern, names]) =>
      // Of a tool that was not found, any may be meant.
      !tool || toolAllowed([pattern], tool.name) ? names : [],
    );
    const hidden = hiddenNames(tool, paths);
    if (tool) this.#hidden.set(tool, hidden);
    return hidden;
  }
}

function toErrors({ code, error, result }: AuditRecord): Json | undefined {
  const chain = [result?.failure, result?.replaced].filter((failure) => failure !== undefined);
  if (chain.length > 0)
    return chain.map((failure) =>
      jsonObject({ code: failure.code, message: failure.message, details: failure.details }),
    );
  return error === undefined ? undefined : [jsonObject({ code, message: error })];
}

/** The answer of a remote tool's server to a failed call. */
function toUpstream({ result, call: { tool } }: AuditRecord): JsonObject | undefined {
  const failure = result?.failure ?? result?.replaced;
  if (!failure || (tool?.binding.kind !== 'openapi' && tool?.binding.kind !== 'mcp')) return undefined;
  const answer = result?.failure ? (result.output ?? (result.text || undefined)) : undefined;
  const status = failure.facts?.status;
  if (status === undefined && answer === undefined) return undefined;
  return jsonObject({ http_status: status, answer });
}

function toResult({ result, call: { tool } }: AuditRecord): JsonObject | undefined {
  if (!result) return undefined;
  const isUpstreams =
    result.failure !== undefined && (tool?.binding.kind === 'openapi' || tool?.binding.kind === 'mcp');
  const { output, text } = result;
  const content = result.content?.length ? result.content : undefined;
  if (isUpstreams) return content && { content };
  return jsonObject(output === null || output === undefined ? { text: text ?? '', content } : { output, content });
}
