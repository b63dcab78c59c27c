import type { Terminal } from './terminal.js';

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const EVERY_MS = 100;
/** Shorter calls need no progress: nothing flickers. */
const QUIET_MS = 400;
const BAR = 24;

/** How far a call is. */
export interface Progress {
  message?: string;
  progress?: number;
  total?: number;
}

/** One line on standard error that shows how long a call runs and how far it is; nothing where nobody looks. */
export class ProgressLine {
  private readonly startedAt = performance.now();
  private readonly timer: NodeJS.Timeout | undefined;
  private latest: Progress = {};
  private drawn = false;

  constructor(
    private readonly terminal: Terminal,
    private readonly label: string,
  ) {
    if (terminal.interactive) this.timer = setInterval(() => this.draw(), EVERY_MS);
  }

  update(progress: Progress): void {
    this.latest = progress;
  }

  stop(): void {
    clearInterval(this.timer);
    if (this.drawn) this.terminal.status();
  }

  private draw(): void {
    const elapsed = performance.now() - this.startedAt;
    if (elapsed < QUIET_MS) return;
    this.drawn = true;
    const frame = FRAMES[Math.floor(elapsed / EVERY_MS) % FRAMES.length] ?? '';
    this.terminal.status(`${frame} ${this.label} ${(elapsed / 1_000).toFixed(1)} s ${describeProgress(this.latest)}`);
  }
}

/** `[████░░░░] 3/8 reading` */
export function describeProgress({ message, progress, total }: Progress): string {
  const parts: string[] = [];
  if (progress !== undefined && total !== undefined && total > 0) {
    const filled = Math.round(Math.min(1, Math.max(0, progress / total)) * BAR);
    parts.push(`[${'█'.repeat(filled)}${'░'.repeat(BAR - filled)}] ${progress}/${total}`);
  } else if (progress !== undefined) parts.push(String(progress));
  if (message) parts.push(message.replaceAll(/\s+/g, ' ').slice(0, 80));
  return parts.join(' ');
}
