import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ServiceHost } from '@toolfleet/service';
import { DataInsightAdapter } from './datainsight.adapter.js';
import type { VendorAdapter } from './vendor-adapter.js';

/** Adapters that ship with the fleet. Add one as a file in this folder and a line here (docs/vendor-adapters.md). */
const SHIPPED: Readonly<Record<string, () => VendorAdapter>> = {
  datainsight: () => new DataInsightAdapter(),
};

/**
 * Finds adapters by name, in any case: first the shipped ones, then `<name>.adapter.js` or `.mjs` in the directory
 * of the operator. An unknown or broken adapter is reported as a fault and not used.
 */
export class VendorAdapters {
  private readonly found = new Map<string, Promise<VendorAdapter | undefined>>();

  constructor(
    private readonly host: Pick<ServiceHost, 'logger' | 'faults'>,
    private readonly directory?: string,
  ) {}

  find(name: string | undefined): Promise<VendorAdapter | undefined> {
    const key = (name ?? '').trim().toLowerCase();
    if (key === '') return Promise.resolve(undefined);
    let adapter = this.found.get(key);
    if (!adapter) {
      adapter = this.load(key);
      if (this.found.size < 1_000) this.found.set(key, adapter);
    }
    return adapter;
  }

  private async load(name: string): Promise<VendorAdapter | undefined> {
    try {
      const shipped = Object.hasOwn(SHIPPED, name) ? SHIPPED[name] : undefined;
      const adapter = shipped ? shipped() : await this.import(name);
      if (!adapter) this.report(name, 'vendor adapter not available; requests go untransformed');
      return adapter;
    } catch (error) {
      this.report(name, 'vendor adapter could not be loaded; requests go untransformed', error);
      return undefined;
    }
  }

  private report(name: string, message: string, error?: unknown): void {
    this.host.logger.warn({ vendor_adapter: name, error }, message);
    this.host.faults.set(`vendor adapter ${name}`, [error === undefined ? message : `${message}: ${String(error)}`]);
  }

  /** The name is part of a path: letters, digits, dash and underscore only. */
  private async import(name: string): Promise<VendorAdapter | undefined> {
    if (this.directory === undefined || !/^[a-z0-9_-]{1,64}$/.test(name)) return undefined;
    for (const extension of ['js', 'mjs']) {
      const url = pathToFileURL(join(this.directory, `${name}.adapter.${extension}`)).href;
      const module = await import(url).catch((error: { code?: string }) => {
        if (error.code === 'ERR_MODULE_NOT_FOUND') return undefined;
        throw error;
      });
      const made: unknown = typeof module?.default === 'function' ? new module.default() : module?.default;
      if (typeof made === 'object' && made !== null) return made as VendorAdapter;
    }
    return undefined;
  }
}
