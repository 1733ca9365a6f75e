import { IconAlertTriangle, IconCircleCheck, IconCircleDashed, IconCircleX } from '@tabler/icons-react'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { paths } from '../../paths'
import { type Card, shorten, size } from './layout'
import { isManaged, toneOf } from './links'
import classes from './Picture.module.css'
import type { Rate } from './rates'
import { addressMark, cardWords, kindWords, rateWords } from './words'

const icons = { live: IconCircleCheck, warn: IconAlertTriangle, bad: IconCircleX, off: IconCircleDashed }
const inner = size.card - 24
/** The width of a character: of an address, which is monospaced, and at most of a word next to it. */
const letter = { mono: 6.9, word: 6.2 }

/** One interface of the picture. A managed one links to its form. */
export function PictureCard({ card, rate }: { card: Card; rate: Rate | undefined }) {
  const { t } = useTranslation('network')
  const { link, x, y, width, height, shown } = card
  const { declared, addresses, name, state } = link
  const label = cardWords(link, rate, t)
  const tone = toneOf(link)
  const Icon = icons[tone]
  const rates = rate && rateWords(rate)
  const body = (
    <>
      <title>{label}</title>
      <rect className={classes.card} width={width} height={height} rx={5} data-managed={isManaged(link) || undefined} />
      <text className={classes.name} x={12} y={22}>
        {name}
      </text>
      <g className={classes.state} data-tone={tone}>
        <Icon size={14} x={width - 26} y={11} aria-hidden />
        <text x={width - 31} y={22}>
          {t(`states.${state}`)}
        </text>
      </g>
      <text className={classes.kind} x={12} y={40}>
        {shorten(
          isManaged(link) ? kindWords(link, t) : `${kindWords(link, t)} · ${t('picture.notDeclared')}`,
          inner / letter.word,
        )}
      </text>
      {shown.map((address, index) => {
        const mark = addressMark(address, t)
        const room = mark ? inner - mark.length * letter.word - 8 : inner
        const row = size.head + index * size.line + 12
        return (
          <g key={address.text} className={classes.address} data-off={!address.bound || undefined}>
            <text x={12} y={row}>
              {shorten(address.text, room / letter.mono)}
            </text>
            {mark && (
              <text className={classes.mark} x={width - 12} y={row}>
                {mark}
              </text>
            )}
          </g>
        )
      })}
      {addresses.length > shown.length && (
        <text className={classes.kind} x={12} y={size.head + shown.length * size.line + 12}>
          {t('picture.more', { count: addresses.length - shown.length })}
        </text>
      )}
      {rates && (
        <g className={classes.rate}>
          <text x={12} y={height - 12}>{`↓ ${rates.rx}`}</text>
          <text x={width / 2} y={height - 12}>{`↑ ${rates.tx}`}</text>
        </g>
      )}
    </>
  )
  const place = `translate(${x} ${y})`
  return declared ? (
    <g transform={place}>
      <Link to={paths.interface(declared.id)} search className={classes.link} aria-label={label}>
        {body}
      </Link>
    </g>
  ) : (
    <g transform={place}>{body}</g>
  )
}
