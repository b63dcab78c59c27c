import { CLIENT_CAPABILITIES_META_KEY } from '@modelcontextprotocol/server';
import { isJsonObject, type Json } from '@toolfleet/contracts';

/** Key of the extension in `capabilities.extensions` of clients that show the pages of MCP Apps. */
const APPS_EXTENSION = 'io.modelcontextprotocol/ui';

/** Key of the extension of clients and servers with tasks. */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';

/** Declared capabilities of a client besides calling tools. */
export interface ClientFeatures {
  /** Shows forms to its user (`elicitation.form`). */
  forms: boolean;
  /** Sends its user to a URL (`elicitation.url`). */
  urls: boolean;
  /** Shows pages of MCP Apps that call tools that are hidden from models. */
  apps: boolean;
  /** Takes tasks in place of results. */
  tasks: boolean;
}

/** Reads declared client capabilities; `elicitation: {}` means forms. */
export function readFeatures(capabilities: unknown): ClientFeatures {
  const { elicitation, extensions } = isJsonObject(capabilities) ? capabilities : {};
  const asks = isJsonObject(elicitation) ? elicitation : undefined;
  return {
    forms: asks !== undefined && (Object.keys(asks).length === 0 || isJsonObject(asks['form'])),
    urls: isJsonObject(asks?.['url']),
    apps: isJsonObject(extensions) && isJsonObject(extensions[APPS_EXTENSION]),
    tasks: isJsonObject(extensions) && isJsonObject(extensions[TASKS_EXTENSION]),
  };
}

/** Capabilities that a 2026 client declares in the envelope of each request. */
export function readClientCapabilities(envelope: unknown): Json | undefined {
  return isJsonObject(envelope) ? envelope[CLIENT_CAPABILITIES_META_KEY] : undefined;
}
