import { Controller } from '@nestjs/common';
import type { JsonObject } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type {
  ToolsetApprove,
  ToolsetDetail,
  ToolsetGet,
  ToolsetGetReply,
  ToolsetList,
  ToolsetListReply,
  ToolsetPut,
  ToolsetRemove,
  ToolsetRemoveReply,
  ToolsetShow,
} from '@toolfleet/contracts/toolset';
import { validateMessage } from '@toolfleet/schema';
import { Endpoint } from '@toolfleet/transport';
import { ToolsetService } from './toolset-service.js';

const text: JsonObject = { type: 'string', minLength: 1, maxLength: 200 };
const id: JsonObject = { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}(@[A-Za-z0-9_.:-]{1,128})?$' };
const version: JsonObject = { type: 'integer', minimum: 1 };
const record = (required: string[], properties: JsonObject): JsonObject => ({ type: 'object', properties, required });

const readGet = validateMessage<ToolsetGet>(record(['tenant_id', 'name'], { tenant_id: text, name: text, version }));
const readList = validateMessage<ToolsetList>(record([], { tenant: { type: ['string', 'null'], maxLength: 200 } }));
const readShow = validateMessage<ToolsetShow>(record(['id'], { id, version }));
const readPut = validateMessage<ToolsetPut>(
  record(['id', 'by'], { id, spec: { type: 'object' }, restore_version: version, by: text }),
);
const readRemove = validateMessage<ToolsetRemove>(record(['id'], { id }));
const readApprove = validateMessage<ToolsetApprove>(
  record(['id', 'tool', 'pending_revision', 'by'], { id, tool: text, pending_revision: text, by: text }),
);

/** `registry.toolset.*`: reads for gateways, and changes by administrators, whom the gateway admits. */
@Controller()
export class ToolsetEndpoint {
  constructor(private readonly toolsets: ToolsetService) {}

  @Endpoint(SUBJECTS.toolsetGet)
  async get(body: unknown): Promise<ToolsetGetReply> {
    const { tenant_id, name, version: wanted } = readGet(body);
    return { toolset: await this.toolsets.get(tenant_id, name, wanted) };
  }

  @Endpoint(SUBJECTS.toolsetList)
  async list(body: unknown): Promise<ToolsetListReply> {
    return { toolsets: await this.toolsets.list(readList(body ?? {}).tenant) };
  }

  @Endpoint(SUBJECTS.toolsetShow)
  show(body: unknown): Promise<ToolsetDetail> {
    const { id: wanted, version: number } = readShow(body);
    return this.toolsets.show(wanted, number);
  }

  @Endpoint(SUBJECTS.toolsetPut)
  put(body: unknown): Promise<ToolsetDetail> {
    return this.toolsets.put(readPut(body));
  }

  @Endpoint(SUBJECTS.toolsetRemove)
  async remove(body: unknown): Promise<ToolsetRemoveReply> {
    const { id: removed } = readRemove(body);
    await this.toolsets.remove(removed);
    return { removed };
  }

  @Endpoint(SUBJECTS.toolsetApprove)
  approve(body: unknown): Promise<ToolsetDetail> {
    const { id: toolset, tool, pending_revision, by } = readApprove(body);
    return this.toolsets.approve(toolset, tool, pending_revision, by);
  }
}
