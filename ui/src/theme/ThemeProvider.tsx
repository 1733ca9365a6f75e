import { type CSSVariablesResolver, createTheme, InputWrapper, MantineProvider, Switch } from '@mantine/core'
import type { ReactNode } from 'react'
import { styleNonce } from './nonce'

const theme = createTheme({
  fontFamily: 'Inter, system-ui, -apple-system, "Segoe UI", sans-serif',
  fontFamilyMonospace: 'var(--gw-mono)',
  primaryColor: 'accent',
  primaryShade: { light: 7, dark: 6 },
  defaultRadius: 4,
  cursorType: 'pointer',
  respectReducedMotion: true,
  colors: {
    accent: [
      '#eef2ff',
      '#dfe6fd',
      '#bccbfa',
      '#96adf5',
      '#7390ef',
      '#5b7bea',
      '#4469e0',
      '#2b4fc4',
      '#2444ab',
      '#1b3688',
    ],
    dark: [
      '#e3e7ed',
      '#c3cad4',
      '#9ca7b6',
      '#6b7686',
      '#414b59',
      '#2a323d',
      '#1a2029',
      '#141920',
      '#0f1318',
      '#0a0d11',
    ],
  },
  fontSizes: { xs: '12px', sm: '13.5px', md: '15px', lg: '17px', xl: '20px' },
  headings: { fontWeight: '600' },
  components: {
    InputWrapper: InputWrapper.extend({
      defaultProps: { inputWrapperOrder: ['label', 'input', 'description', 'error'] },
    }),
    Switch: Switch.extend({ defaultProps: { withThumbIndicator: false } }),
    // The header of a dialog is not the banner of the page, which already has one.
    DrawerHeader: { defaultProps: { role: 'presentation' } },
    ModalHeader: { defaultProps: { role: 'presentation' } },
  },
})

// The library's variables refer to the palette, which is plain CSS and follows the scheme.
const variables = {
  '--mantine-color-body': 'var(--gw-panel)',
  '--mantine-color-text': 'var(--gw-ink)',
  '--mantine-color-dimmed': 'var(--gw-ink-soft)',
  '--mantine-color-placeholder': 'var(--gw-ink-soft)',
  '--mantine-color-default': 'var(--gw-panel)',
  '--mantine-color-default-hover': 'var(--gw-sunken)',
  '--mantine-color-default-color': 'var(--gw-ink)',
  '--mantine-color-default-border': 'var(--gw-line-strong)',
  '--mantine-color-error': 'var(--gw-bad)',
  '--mantine-color-anchor': 'var(--gw-accent)',
  '--mantine-color-disabled': 'var(--gw-sunken)',
  '--mantine-color-disabled-color': 'var(--gw-ink-soft)',
}
const cssVariablesResolver: CSSVariablesResolver = () => ({ variables: {}, light: variables, dark: variables })

export function ThemeProvider({ children }: { children: ReactNode }) {
  return (
    <MantineProvider
      theme={theme}
      cssVariablesResolver={cssVariablesResolver}
      defaultColorScheme="auto"
      getStyleNonce={() => styleNonce}
      withGlobalClasses={false}
    >
      {children}
    </MantineProvider>
  )
}
