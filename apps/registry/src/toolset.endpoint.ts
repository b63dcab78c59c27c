import { Controller } from '@nestjs/common';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import {
  TOOLSET_APPROVE,
  TOOLSET_GET,
  TOOLSET_LIST,
  TOOLSET_PUT,
  TOOLSET_REMOVE,
  TOOLSET_SHOW,
  type ToolsetApprove,
  type ToolsetGet,
  type ToolsetList,
  type ToolsetPut,
  type ToolsetRemove,
  type ToolsetShow,
} from '@toolfleet/contracts/toolset';
import { Endpoint } from '@toolfleet/transport';
import { ToolsetService } from './toolset-service.js';

/** `registry.toolset.*`: reads for gateways, and changes by administrators, whom the gateway admits. */
@Controller()
export class ToolsetEndpoint {
  constructor(private readonly toolsets: ToolsetService) {}

  @Endpoint(SUBJECTS.toolsetGet, { schema: TOOLSET_GET })
  async get({ tenant_id, name, version }: ToolsetGet) {
    return { toolset: await this.toolsets.get(tenant_id, name, version) };
  }

  @Endpoint(SUBJECTS.toolsetList, { schema: TOOLSET_LIST })
  async list(query: ToolsetList | null | undefined) {
    return { toolsets: await this.toolsets.list(query?.tenant) };
  }

  @Endpoint(SUBJECTS.toolsetShow, { schema: TOOLSET_SHOW })
  show({ id, version }: ToolsetShow) {
    return this.toolsets.show(id, version);
  }

  @Endpoint(SUBJECTS.toolsetPut, { schema: TOOLSET_PUT })
  put(message: ToolsetPut) {
    return this.toolsets.put(message);
  }

  @Endpoint(SUBJECTS.toolsetRemove, { schema: TOOLSET_REMOVE })
  async remove({ id }: ToolsetRemove) {
    await this.toolsets.remove(id);
    return { removed: id };
  }

  @Endpoint(SUBJECTS.toolsetApprove, { schema: TOOLSET_APPROVE })
  approve({ id, tool, pending_revision, by }: ToolsetApprove) {
    return this.toolsets.approve(id, tool, pending_revision, by);
  }
}
