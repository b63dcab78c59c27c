/** From this share on a meter warns. */
const HIGH = 0.9;

/** How much of a whole is used, and held on top of it. Its text stands beside it; the drawing adds none. */
export function Meter({ used, held = 0, total, label }: { used: number; held?: number; total: number; label: string }) {
  const share = total > 0 ? Math.min(1, used / total) : 0;
  const heldShare = total > 0 ? Math.min(1 - share, held / total) : 0;
  return (
    <svg
      className="meter"
      viewBox="0 0 100 10"
      preserveAspectRatio="none"
      role="img"
      aria-label={`${label}: ${Math.round((share + heldShare) * 100)} %`}
    >
      <rect className="track" width="100" height="10" />
      <rect className={share >= HIGH ? 'used high' : 'used'} width={share * 100} height="10" />
      <rect className="held" x={share * 100} width={heldShare * 100} height="10" />
    </svg>
  );
}
