/** Images of the fleet and of its stores, built or pulled for a test, named below a prefix of the test's own. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Engine } from './engine.js';
import { writeStandIns } from './stand-ins.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DOCKERFILE = join(ROOT, 'deploy/app.Dockerfile');
const NPM_CACHE = join(process.env['HOME'] ?? '/root', '.npm');

const { bundle } = (await import(pathToFileURL(join(ROOT, 'tools/bundle.mjs')).href)) as {
  bundle: (app: string, outdir: string) => Promise<{ outdir: string }>;
};

/** Images that a test made or found. */
export interface Images {
  /** Where the base images come from, in words. */
  readonly origin: string;
  /** The base image of the apps. */
  readonly base: string;
  /** Whether the watchers of docker-compose.yml can run. */
  readonly hasWatchers: boolean;
  /** The image that takes the place of one of docker-compose.yml, by its name there. */
  of(image: string): string;
  /** Builds the image of an app. `whole`: by the whole Dockerfile; otherwise only its last stage, from a bundle made here. */
  build(app: string, options: { whole: boolean }): Promise<void>;
  /** Builds an image on top of an app's with more lines of a Dockerfile. @returns its name */
  derive(app: string, lines: string): Promise<string>;
  /** Size of an app's image above its base, in bytes. */
  ownBytes(app: string): Promise<number>;
  /** Removes built and pulled images from a store of the machine. */
  remove(): Promise<void>;
}

/** Pulls the base images, or builds stand-ins where `pulled` is empty or they cannot be pulled. */
export async function getImages(
  engine: Engine,
  prefix: string,
  { pulled, whole }: { pulled: readonly string[]; whole: boolean },
): Promise<Images> {
  const made: string[] = [];
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-images-'));
  const isHere = (image: string) =>
    engine.run('image', 'inspect', image).then(
      () => true,
      () => false,
    );
  const nodeImage = /^ARG NODE_IMAGE=(\S+)/m.exec(readFileSync(DOCKERFILE, 'utf8'))![1]!;
  let refusal = 'not asked for';
  try {
    if (pulled.length > 0) {
      for (const image of [nodeImage, ...pulled]) {
        if (await isHere(image)) continue;
        await engine.run('pull', image.includes('/') ? `docker.io/${image}` : `docker.io/library/${image}`);
        made.push(image);
      }
      refusal = '';
    }
  } catch (error) {
    refusal = (error as Error).message.split('\n').at(-1)!;
  }
  const standIn = (name: string) => `localhost/${prefix}/stand-in-${name}:test`;
  if (refusal !== '') {
    const files = writeStandIns(folder, standIn('base'), { whole });
    for (const [name, text] of Object.entries(files)) {
      const file = join(folder, `${name}.Dockerfile`);
      writeFileSync(file, text);
      await engine.run('build', '--quiet', '--network', 'host', '--tag', standIn(name), '--file', file, folder);
      made.push(standIn(name));
    }
  }
  rmSync(folder, { recursive: true, force: true });
  const base = refusal === '' ? nodeImage : standIn('base');
  const own = (app: string) => `localhost/${prefix}/${app}:test`;
  const bytes = async (image: string) => Number(await engine.run('image', 'inspect', '--format', '{{.Size}}', image));
  return {
    origin: refusal === '' ? 'pulled' : `stand-ins made of this machine's programs (pulling: ${refusal})`,
    base,
    hasWatchers: refusal === '',
    of: (image) => {
      const app = /^toolfleet\/([\w-]+):/.exec(image)?.[1];
      return app ? own(app) : refusal === '' ? image : standIn(image.split(':')[0]!);
    },
    async build(app, options) {
      const settings = ['--build-arg', `APP=${app}`, '--build-arg', `NODE_IMAGE=${base}`, '--tag', own(app)];
      if (options.whole) {
        // The cache of npm on this machine, for builds without another way to its packages.
        const cache = refusal === '' ? [] : ['--volume', `${NPM_CACHE}:/var/cache/npm`];
        const ofEngine =
          engine.name === 'podman' ? ['--layers', '--isolation', 'chroot', '--network', 'host', ...cache] : [];
        await engine.run('build', '--quiet', ...ofEngine, ...settings, '--file', DOCKERFILE, ROOT);
      } else {
        const context = mkdtempSync(join(tmpdir(), 'toolfleet-image-'));
        await bundle(app, join(context, 'app'));
        const text = readFileSync(DOCKERFILE, 'utf8');
        const last = text.slice(text.lastIndexOf('\nFROM ') + 1).replace(/^COPY --from=build \S+ /m, 'COPY app/ ');
        writeFileSync(join(context, 'Dockerfile'), `ARG NODE_IMAGE\n${last}`);
        await engine.run('build', '--quiet', ...settings, context);
        rmSync(context, { recursive: true, force: true });
      }
      made.push(own(app));
    },
    async derive(app, lines) {
      const context = mkdtempSync(join(tmpdir(), 'toolfleet-image-'));
      writeFileSync(join(context, 'Dockerfile'), `FROM ${own(app)}\n${lines}\n`);
      const image = `localhost/${prefix}/${app}-derived:test`;
      await engine.run('build', '--quiet', '--tag', image, context);
      rmSync(context, { recursive: true, force: true });
      made.push(image);
      return image;
    },
    ownBytes: async (app) => (await bytes(own(app))) - (await bytes(base)),
    async remove() {
      if (!engine.hasOwnStore) for (const image of made.toReversed()) await engine.run('rmi', '--force', image);
    },
  };
}
