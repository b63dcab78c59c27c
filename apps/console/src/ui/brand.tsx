/** Mark and name. */
export function Brand() {
  return (
    <span className="brand">
      <svg viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="#0f766e" />
        <path d="M8 10h16M16 10v13" fill="none" stroke="#fff" strokeWidth="2.4" strokeLinecap="round" />
      </svg>
      toolfleet
    </span>
  );
}
