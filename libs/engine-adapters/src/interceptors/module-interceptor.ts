import { lstat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseExact, toExactJson } from '@toolfleet/contracts/json-text';
import { distrustReason } from '@toolfleet/contracts/trusted-file';
import type { Interceptor, InterceptorVerdict } from '@toolfleet/engine';
import type { InterceptorSettings } from '@toolfleet/fleet-file';
import type { InterceptorKind } from './interceptor-kind.js';

/**
 * Code of the operator in the gateway's process, with all its rights. Therefore the file and its folder must belong to the user of the
 * process or to root and must not be writable by others, as for plugins. Nothing can end it: its time counts where it waits.
 */
export function moduleInterceptor({ file = '' }: InterceptorSettings): InterceptorKind {
  let intercept: Interceptor['intercept'] | undefined;
  return {
    intercept: async (call, next, signal) => {
      if (!intercept) throw new Error('its file could not be loaded');
      // Copies: results may be shared with other calls, and what the module keeps of its answer must not change later.
      const verdict = await intercept(call, async (change) => structuredClone(await next(change)), signal);
      return parseExact<InterceptorVerdict>(toExactJson(verdict)).value;
    },
    load: async () => {
      for (const [path, kind] of [[dirname(file), 'directory'] as const, [file, 'file'] as const]) {
        const reason = distrustReason(await lstat(path), kind);
        if (reason !== null) throw new Error(`${path} ${reason}`);
      }
      const { default: found } = (await import(pathToFileURL(file).href)) as { default?: Partial<Interceptor> };
      if (typeof found?.intercept !== 'function') throw new Error('its default export has no function intercept');
      intercept = found.intercept.bind(found);
    },
  };
}
